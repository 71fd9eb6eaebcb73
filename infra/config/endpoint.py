"""StackSettings of the endpoint that clients connect to, and the combinations that are rejected."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path

from infra.config.values import Values


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """The endpoint that clients connect to."""

    public: bool
    allowed: tuple[str, ...]
    """Networks that may connect; empty allows only the VPC."""
    domain: str
    zone_id: str
    """The Route 53 zone of the domain, for its record and the validation of its certificate."""
    certificate_arn: str
    require_tls: bool
    client_authorities: str
    """The authorities of client certificates (PEM), for mutual TLS; empty without it."""
    private_link: tuple[str, ...]
    """Who may connect by PrivateLink: AWS accounts, or ARNs of principals; empty turns it off."""

    @property
    def certified(self) -> bool:
        """Whether the load balancer has a certificate, so that TLS ends there.

        A client's certificate must reach the broker: with mutual TLS it ends there instead.
        """
        return bool(self.certificate_arn or self.zone_id) and not self.client_authorities


def parse_endpoint(values: Values, internal_tls: bool) -> EndpointSettings:
    """Read and check the endpoint's settings. Raises ``DeploymentError``."""
    found = EndpointSettings(
        public=values.flag("public", False),
        allowed=values.networks("allowed"),
        domain=values.text(
            "domain", "", r"([a-z0-9-]+\.)+[a-z]{2,}", "a domain name such as sulina.example.com"
        ),
        zone_id=values.text("zoneId", "", r"[A-Z0-9]{1,32}", "the id of a Route 53 zone"),
        certificate_arn=values.text(
            "certificateArn",
            "",
            r"arn:aws[a-z-]*:acm:[a-z0-9-]+:\d{12}:certificate/[\w-]+",
            "the ARN of an ACM certificate",
        ),
        require_tls=values.flag("requireTls", False),
        client_authorities=_client_authorities(values),
        private_link=_private_link(values),
    )
    if bool(found.zone_id or found.certificate_arn) > bool(found.domain):
        raise values.error("domain", "must be the domain name of the certificate")
    if found.client_authorities and found.certificate_arn:
        raise values.error(
            "certificateArn",
            "must not be set with sulina:clientAuthorities, because TLS then ends at brokers, "
            "whose certificates the stack's own authority signs",
        )
    if found.domain and not found.certified and not found.client_authorities:
        raise values.error("zoneId", "is required with a domain, unless certificateArn is set")
    if (found.public or found.require_tls) and not (found.certified or found.client_authorities):
        needs = "public" if found.public else "requireTls"
        raise values.error(
            "domain",
            f"sulina:{needs} needs a certificate (sulina:domain with sulina:zoneId creates one, "
            "sulina:domain with sulina:certificateArn uses your own)",
        )
    if (found.certified or found.client_authorities) and not internal_tls:
        # Load balancers negotiate HTTP/2, which gRPC needs, only with targets that use TLS.
        with_what = "clientAuthorities" if found.client_authorities else "domain"
        raise values.error(
            "internalTls",
            f"must be true with sulina:{with_what}, because TLS then reaches up to the brokers",
        )
    if found.private_link and found.public:
        raise values.error(
            "privateLink", "needs an internal load balancer, so sulina:public must be false"
        )
    if found.private_link and not found.domain:
        # Lookups return this name, which must lead to the endpoint in the other account's network.
        raise values.error("domain", "must be set with sulina:privateLink")
    wide = any(ipaddress.IPv4Network(each).prefixlen < 8 for each in found.allowed)
    if found.public and (wide or not found.allowed):
        raise values.error(
            "allowed", "must list the networks that may connect, none larger than a /8"
        )
    return found


def _client_authorities(values: Values) -> str:
    path = values.text("clientAuthorities")
    if not path:
        return ""
    try:
        found = Path(path).read_text()
    except (OSError, UnicodeDecodeError):
        found = ""
    if "-----BEGIN CERTIFICATE-----" not in found or "PRIVATE KEY" in found:
        raise values.error(
            "clientAuthorities", "must be a file with the certificates of authorities (PEM)"
        )
    return found


def _private_link(values: Values) -> tuple[str, ...]:
    found = values.listing("privateLink")
    known = r"\d{12}|arn:aws[a-z-]*:iam::\d{12}:(root|(user|role)/[\w+=,.@/-]+)"
    if not all(re.fullmatch(known, each) for each in found):
        raise values.error(
            "privateLink", "must list AWS accounts such as 111122223333, or ARNs of IAM principals"
        )
    return found
