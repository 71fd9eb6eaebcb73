"""TLS of a storage node: certificates, client authentication, reload without a restart."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from sulina.runtime.tls_files import TlsFiles, TlsTexts, TlsWatch


@dataclass(frozen=True, slots=True)
class ServerTls:
    """TLS of a node. It uses ``files`` as a server, and as a client of other nodes."""

    files: TlsFiles
    ask_clients: bool = False
    """Require client certificates of an authority in ``files.ca``."""


def server_credentials(tls: ServerTls) -> grpc.ServerCredentials:
    """For a gRPC server. Every new connection uses the current content of the files.

    Raises ``Refused`` if the files can't be used. If a later version of them can't be used, that is
    logged and the previous one stays in use.
    """
    watch = TlsWatch(tls.files)

    def configuration(texts: TlsTexts) -> grpc.ServerCertificateConfiguration:
        assert texts.certificate is not None
        assert texts.key is not None
        return grpc.ssl_server_certificate_configuration(
            [(texts.key, texts.certificate)], texts.ca if tls.ask_clients else None
        )

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        # gRPC's threads call this at every handshake; checking the files takes microseconds.
        texts = watch.renewed()
        return None if texts is None else configuration(texts)

    return grpc.dynamic_ssl_server_credentials(
        configuration(watch.texts),
        renewed,  # type: ignore[arg-type]  # None means "unchanged", which its types lack
        require_client_authentication=tls.ask_clients,
    )
