"""Broker addresses: ``sulina://host:port``, or ``sulina+tls://`` for TLS on the same port.

Brokers that share a name announce themselves as ``name@host:port``: the client connects to the host
and expects a certificate for the name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sulina.errors import Refused

DEFAULT_PORT: Final = 6655
_SCHEMES: Final = {"sulina": False, "sulina+tls": True}


@dataclass(frozen=True, slots=True)
class Address:
    """One broker's binary port."""

    host: str
    port: int
    secure: bool = False
    broker: str = ""
    """The id of the wanted broker, if several share the address."""
    name: str = ""
    """The name that the broker shares with others, if it is not ``host``."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        wanted = f" ({self.broker})" if self.broker else ""
        return f"{host}:{self.port}{wanted}"


def parse_addresses(url: str) -> tuple[Address, ...]:
    """All addresses of a URL. Brokers are separated by commas, each with an optional port.

    Raises ``Refused`` with an example of a valid URL.
    """
    scheme, separator, rest = url.partition("://")
    places = rest.rstrip("/").split(",")
    if not separator or scheme not in _SCHEMES or not all(places) or "/" in rest.rstrip("/"):
        raise _refusal(url)
    return tuple(_parse_place(url, place, _SCHEMES[scheme]) for place in places)


def _parse_place(url: str, text: str, secure: bool) -> Address:
    name, at, place = text.rpartition("@")
    if at and not name:
        raise _refusal(url)
    if place.startswith("["):
        host, bracket, tail = place[1:].partition("]")
        if not bracket or (tail and not tail.startswith(":")):
            raise _refusal(url)
        port = tail[1:]
    else:
        host, colon, port = place.partition(":")
        tail = colon
    if not tail:
        return Address(host, DEFAULT_PORT, secure, name=name)
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise _refusal(url)
    return Address(host, int(port), secure, name=name)


def _refusal(url: str) -> Refused:
    return Refused(
        f"{url!r} is not a broker URL: use sulina://host:port or sulina+tls://host:port "
        "(for example sulina://127.0.0.1:6655)"
    )
