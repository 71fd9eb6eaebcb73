"""Addresses, credentials and timeouts for etcd, parsed from ``http://h1:2379,h2:2379/root``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import SplitResult, unquote, urlsplit

from sulina.errors import Refused
from sulina.runtime.tls_files import TlsFiles

DEFAULT_PORT = 2379


@dataclass(frozen=True, slots=True)
class EtcdEndpoint:
    """A member's address. ``host`` is written as in a URL: an IPv6 address has brackets."""

    host: str
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class EtcdSettings:
    """The settings of an ``EtcdStore``. ``parse`` reads them from a URL."""

    endpoints: tuple[EtcdEndpoint, ...]
    """The members. Calls move on from one that fails to the next."""
    root: str = ""
    """The prefix of every key in etcd, so that clusters can share it: ``/sulina/prod``."""
    tls: TlsFiles | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    connect_seconds: float = 1.0
    request_seconds: float = 2.0
    """Timeout of a request to one member; a write that times out has an unknown outcome."""
    call_seconds: float = 6.0
    """How long a call keeps trying other members, if it cannot happen twice by that."""
    idle_seconds: float = 10.0
    """A watch reconnects after this time without a message: its member may be frozen."""
    max_in_flight: int = 64
    """Calls that may run at once, each on its own connection; further ones wait."""

    def __post_init__(self) -> None:
        if not self.endpoints:
            raise Refused("no etcd endpoint: give one or more, like http://h1:2379,h2:2379")
        if self.root and (not self.root.startswith("/") or self.root.endswith("/")):
            raise Refused(f"the root {self.root!r} must begin with / and not end with it")
        if bool(self.password) > bool(self.user):
            raise Refused("a password for etcd needs a user: add one, or omit the password")
        if self.max_in_flight < 1:
            raise Refused("max_in_flight must be 1 or more")
        for name in ("connect_seconds", "request_seconds", "call_seconds", "idle_seconds"):
            if not getattr(self, name) > 0:
                raise Refused(f"{name} must be more than 0")

    @classmethod
    def parse(cls, url: str, **more: Any) -> Self:
        """From ``http[s]://[user:password@]host[:port],host[:port],...[/root]``.

        The scheme may be repeated before each host, and omitted for http. ``more`` are fields that
        are not in the URL, such as ``tls`` for https. Raises ``Refused``.
        """
        parts = [_split(text.strip(), url) for text in url.split(",")]
        schemes = {scheme for scheme, _ in parts if scheme} or {"http"}
        if len(schemes) > 1 or not schemes <= {"http", "https"}:
            raise Refused(f"the etcd endpoints in {_safe(url)!r} must all be http, or all https")
        if any(part.path.strip("/") for _, part in parts[:-1]):
            raise Refused(f"in {_safe(url)!r} the root must follow the last endpoint")
        first, last = parts[0][1], parts[-1][1]
        found: dict[str, Any] = {
            "root": last.path.rstrip("/"),
            "user": unquote(first.username or ""),
            "password": unquote(first.password or ""),
        }
        found.update(more)
        if "https" in schemes and found.get("tls") is None:
            found["tls"] = TlsFiles()
        elif "http" in schemes and found.get("tls") is not None:
            raise Refused(
                "TLS files need endpoints with https://: change the scheme, or omit the files"
            )
        return cls(tuple(_endpoint(part, url) for _, part in parts), **found)


def _split(text: str, url: str) -> tuple[str, SplitResult]:
    """The scheme, if there is one, and the parsed rest."""
    scheme, separator, rest = text.rpartition("://")
    try:
        part = urlsplit("//" + rest)
        if part.hostname and not part.query and not part.fragment:
            return (scheme.lower() if separator else ""), part
    except ValueError:
        pass
    raise Refused(f"{_safe(url)!r} is not a list of etcd endpoints: use http://h1:2379,h2:2379")


def _endpoint(part: SplitResult, url: str) -> EtcdEndpoint:
    host = part.hostname or ""
    try:
        port = part.port
    except ValueError:
        raise Refused(f"invalid port in {_safe(url)!r}: use http://h1:2379,h2:2379") from None
    return EtcdEndpoint(
        f"[{host}]" if ":" in host else host, DEFAULT_PORT if port is None else port
    )


def _safe(url: str) -> str:
    """The URL without the part before an @, which may contain a password."""
    return ",".join(
        text[: text.find("://") + 3] * ("://" in text)
        + text.rpartition("@")[2].rpartition("://")[2]
        for text in url.split(",")
    )
