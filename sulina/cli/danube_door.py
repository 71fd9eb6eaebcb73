"""Where the door for Danube's clients is, for the commands that start brokers."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sulina.errors import Refused

if TYPE_CHECKING:
    from broker_containers.doors.danube.settings import DanubeListen

GRPC_PORT: Final = 6650
_EVERYWHERE: Final = ("", "0.0.0.0", "::")


def grpc_port_or_default(wanted: int | None, port: int) -> int:
    """The one that was asked for; else Danube's, or a free one where ``port`` is 0 as well."""
    if wanted is not None:
        return wanted
    return GRPC_PORT if port else 0


def danube_door(
    host: str,
    port: int,
    wanted: int | None,
    certificate: str | None,
    key: str | None,
    advertise: str = "",
    proxy_url: str = "",
) -> DanubeListen | None:
    """The door that ``--grpc-port`` asks for.

    Without gRPC there is none: None then, or ``Refused`` if the option was given.
    """
    try:
        import broker_containers.doors.danube.serving  # noqa: F401
        from broker_containers.doors.danube.settings import DanubeListen
    except ModuleNotFoundError as error:
        if wanted is None:
            return None
        raise Refused(f"--grpc-port needs {error.name}: pip install 'sulina[all-in-one]'") from None
    return DanubeListen(
        host,
        grpc_port_or_default(wanted, port),
        certificate=_read(certificate),
        key=_read(key),
        advertise=_checked("--grpc-advertise", advertise),
        # Clients are told an address; "everywhere" is none.
        advertise_host=socket.gethostname() if host in _EVERYWHERE else host,
        proxy_url=_checked("--grpc-proxy", proxy_url),
    )


def _checked(flag: str, url: str) -> str:
    scheme, separator, place = url.rstrip("/").partition("://")
    if url and (scheme not in ("http", "https") or not separator or not place or "/" in place):
        raise Refused(f"{flag} {url!r} is no URL of brokers: write http://host:port or https://...")
    return url.rstrip("/")


def _read(file: str | None) -> bytes | None:
    return None if file is None else Path(file).read_bytes()
