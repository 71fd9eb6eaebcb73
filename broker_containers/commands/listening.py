"""The ports that a broker listens on: defaults, TLS, and the gRPC ports for Danube's clients."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sulina.errors import Refused
from sulina.runtime.machine import own_name

if TYPE_CHECKING:
    from broker_containers.doors.danube.settings import DanubeListen
    from broker_containers.doors.danube_admin.settings import AdminListen

HTTP_PORT: Final = 8080
GRPC_PORT: Final = 6650
ADMIN_PORT: Final = 50051
_ALL_ADDRESSES: Final = ("", "0.0.0.0", "::")


def port_or_default(wanted: int | None, binary_port: int, default: int) -> int:
    """The port given; else the default, or a free one where ``binary_port`` is 0 as well."""
    if wanted is not None:
        return wanted
    return default if binary_port else 0


def tls_context(
    certificate: str, key: str | None, client_ca: str | None = None, *, http2: bool = False
) -> ssl.SSLContext:
    """The TLS context of a server. Raises ``Refused`` if the files can't be used.

    With ``client_ca``, clients may present certificates of these authorities. With ``http2``, they
    are told that the server speaks it, which gRPC's clients require.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise Refused(
            f"{certificate} can't be used for TLS ({error.reason or error}): it must be a PEM file "
            "with the certificate, and the key in it or in --tls-key must belong to it"
        ) from None
    if http2:
        context.set_alpn_protocols(["h2"])
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except ssl.SSLError as error:
            raise Refused(
                f"{client_ca} can't be used for clients' certificates ({error.reason or error}): "
                "it must be a PEM file with the certificates of authorities"
            ) from None
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def danube_listen(
    host: str,
    port: int,
    wanted: int | None,
    tls: ssl.SSLContext | None,
    advertise: str = "",
    proxy_url: str = "",
    shared_name: str = "",
    peer_authorities: Path | None = None,
) -> DanubeListen | None:
    """Where to serve Danube's clients, for ``--grpc-port``.

    Where gRPC is not installed this is None, or ``Refused`` if the option was given.
    """
    try:
        import broker_containers.doors.danube.server  # noqa: F401
        from broker_containers.doors.danube.settings import DanubeListen
    except ModuleNotFoundError as error:
        _refuse_without_grpc("--grpc-port", wanted, error)
        return None
    return DanubeListen(
        host,
        port_or_default(wanted, port, GRPC_PORT),
        tls=tls,
        advertise=_checked("--grpc-advertise", advertise),
        # Clients need an address that they can connect to.
        advertise_host=own_name() if host in _ALL_ADDRESSES else host,
        proxy_url=_checked("--grpc-proxy", proxy_url),
        shared_name=shared_name,
        peer_authorities=peer_authorities,
    )


def danube_admin_listen(
    host: str, port: int, wanted: int | None, tls: ssl.SSLContext | None
) -> AdminListen | None:
    """Where to serve Danube's admin tools, for ``--admin-port``.

    Where gRPC is not installed this is None, or ``Refused`` if the option was given.
    """
    try:
        import broker_containers.doors.danube_admin.server  # noqa: F401
        from broker_containers.doors.danube_admin.settings import AdminListen
    except ModuleNotFoundError as error:
        _refuse_without_grpc("--admin-port", wanted, error)
        return None
    return AdminListen(
        host,
        port_or_default(wanted, port, ADMIN_PORT),
        tls=tls,
    )


def _refuse_without_grpc(flag: str, wanted: int | None, error: ModuleNotFoundError) -> None:
    if wanted is not None:
        raise Refused(f"{flag} needs {error.name}: pip install 'sulina[all-in-one]'") from None


def _checked(flag: str, url: str) -> str:
    scheme, separator, address = url.rstrip("/").partition("://")
    if url and (scheme not in ("http", "https") or not separator or not address or "/" in address):
        raise Refused(
            f"invalid value for {flag}: {url!r}; write http://host:port or https://host:port"
        )
    return url.rstrip("/")
