"""StackSettings of the endpoint that clients connect to, and the combinations that are rejected."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

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

    @property
    def tls(self) -> bool:
        """Whether the load balancer has a certificate."""
        return bool(self.certificate_arn or self.zone_id)


def parse_endpoint(values: Values) -> EndpointSettings:
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
    )
    if bool(found.zone_id or found.certificate_arn) > bool(found.domain):
        raise values.error("domain", "must be the domain name of the certificate")
    if found.domain and not found.tls:
        raise values.error("zoneId", "is required with a domain, unless certificateArn is set")
    if (found.public or found.require_tls) and not found.tls:
        needs = "public" if found.public else "requireTls"
        raise values.error(
            "domain",
            f"sulina:{needs} needs a certificate (sulina:domain with sulina:zoneId creates one, "
            "sulina:domain with sulina:certificateArn uses your own)",
        )
    wide = any(ipaddress.IPv4Network(each).prefixlen < 8 for each in found.allowed)
    if found.public and (wide or not found.allowed):
        raise values.error(
            "allowed", "must list the networks that may connect, none larger than a /8"
        )
    return found
