"""How clients come in: what can be chosen about it, and what is refused."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from infra.values import Values


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How clients come in."""

    public: bool
    allowed: tuple[str, ...]
    """Who may connect: blocks of addresses. Empty is the VPC alone."""
    domain: str
    zone_id: str
    """Route 53's zone of the domain: records and a certificate are made in it."""
    certificate_arn: str
    require_tls: bool

    @property
    def tls(self) -> bool:
        """Whether the load balancer has a certificate to show."""
        return bool(self.certificate_arn or self.zone_id)


def parse_endpoint(values: Values) -> Endpoint:
    """From the values of a stack. Raises ``Wrong``."""
    found = Endpoint(
        public=values.flag("public", False),
        allowed=values.networks("allowed"),
        domain=values.text(
            "domain", "", r"([a-z0-9-]+\.)+[a-z]{2,}", "a name such as sulina.example.com"
        ),
        zone_id=values.text("zoneId", "", r"[A-Z0-9]{1,32}", "the id of a Route 53 zone"),
        certificate_arn=values.text(
            "certificateArn",
            "",
            r"arn:aws[a-z-]*:acm:[a-z0-9-]+:\d{12}:certificate/[\w-]+",
            "the ARN of a certificate of ACM",
        ),
        require_tls=values.flag("requireTls", False),
    )
    if bool(found.zone_id or found.certificate_arn) > bool(found.domain):
        raise values.wrong("domain", "must be the name that the certificate is for")
    if found.domain and not found.tls:
        raise values.wrong("zoneId", "must be given for a domain, or a certificateArn instead")
    if (found.public or found.require_tls) and not found.tls:
        raise values.wrong(
            "public" if found.public else "requireTls",
            "there is no certificate; with sulina:domain and sulina:zoneId one is made, with "
            "sulina:domain and sulina:certificateArn yours is used",
        )
    wide = any(ipaddress.IPv4Network(each).prefixlen < 8 for each in found.allowed)
    if found.public and (wide or not found.allowed):
        raise values.wrong(
            "allowed", "must name the networks that may connect, none larger than a /8"
        )
    return found
