"""Where the door for Danube's admin tools is, for the commands that start brokers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from sulina.errors import Refused

if TYPE_CHECKING:
    from broker_containers.doors.danube_admin.settings import AdminListen

ADMIN_PORT: Final = 50051


def admin_port_or_default(wanted: int | None, port: int) -> int:
    """The one that was asked for; else Danube's, or a free one where ``port`` is 0 as well."""
    if wanted is not None:
        return wanted
    return ADMIN_PORT if port else 0


def admin_door(
    host: str, port: int, wanted: int | None, certificate: str | None, key: str | None
) -> AdminListen | None:
    """The door that ``--admin-port`` asks for.

    Without gRPC there is none: None then, or ``Refused`` if the option was given.
    """
    try:
        import broker_containers.doors.danube_admin.serving  # noqa: F401
        from broker_containers.doors.danube_admin.settings import AdminListen
    except ModuleNotFoundError as error:
        if wanted is None:
            return None
        raise Refused(
            f"--admin-port needs {error.name}: pip install 'sulina[all-in-one]'"
        ) from None
    return AdminListen(
        host, admin_port_or_default(wanted, port), certificate=_read(certificate), key=_read(key)
    )


def _read(file: str | None) -> bytes | None:
    return None if file is None else Path(file).read_bytes()
