"""TLS of a storage node: what it shows, whom it lets in, and new certificates without a restart."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from sulina.runtime.tls_files import TlsFiles, TlsTexts, TlsWatch


@dataclass(frozen=True, slots=True)
class ServerTls:
    """How a node speaks TLS. ``files`` are also what it shows to other nodes, and trusts."""

    files: TlsFiles
    ask_clients: bool = False
    """Let nobody in without a certificate of an authority in ``files.ca``."""


def server_credentials(tls: ServerTls) -> grpc.ServerCredentials:
    """For a gRPC server. Every new connection is served with what is in the files then.

    Raises ``Refused`` if the files can't be used now; files that can't be used later are told to
    the log, and those before count on.
    """
    watch = TlsWatch(tls.files)

    def configuration(texts: TlsTexts) -> grpc.ServerCertificateConfiguration:
        assert texts.certificate is not None
        assert texts.key is not None
        return grpc.ssl_server_certificate_configuration(
            [(texts.key, texts.certificate)], texts.ca if tls.ask_clients else None
        )

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        # Called by gRPC's threads at every handshake; a look at the files takes microseconds.
        texts = watch.renewed()
        return None if texts is None else configuration(texts)

    return grpc.dynamic_ssl_server_credentials(
        configuration(watch.texts),
        renewed,  # type: ignore[arg-type]  # None is "as before", which its types do not know
        require_client_authentication=tls.ask_clients,
    )
