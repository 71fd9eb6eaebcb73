"""TLS certificates in files, and their replacement while a process runs.

Certificate and key are read together: if they do not match, because they are being replaced, the
previous ones stay in use.
"""

from __future__ import annotations

import logging
import os
import ssl
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sulina.errors import Refused

_log = logging.getLogger(__name__)
_TRIES: Final = 3

_State = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class TlsTexts:
    """The contents of the files, for libraries that do not use Python's SSL contexts."""

    ca: bytes | None
    certificate: bytes | None
    key: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of a TLS client. Without ``ca``, the system's certificates are trusted."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    """May be omitted if it is in the certificate's file."""

    def context(self) -> ssl.SSLContext:
        """A client's context that checks names and certificates. Reads the files.

        Raises ``Refused`` if they cannot be used, or if the key has a passphrase.
        """
        return self._loaded(None)

    def renew(self, context: ssl.SSLContext) -> None:
        """Load the current files into a context created here, for new connections.

        Authorities that it trusted before stay trusted. Raises ``Refused``.
        """
        self._loaded(context)

    def _loaded(self, context: ssl.SSLContext | None) -> ssl.SSLContext:
        for path in self._paths():
            try:
                path.read_bytes()
            except OSError as error:
                raise Refused(
                    f"{path} cannot be read ({error.strerror or error}): put a PEM file there that "
                    "this process can read, or specify another"
                ) from None
        try:
            if context is None:
                context = ssl.create_default_context(cafile=self.ca)
            elif self.ca is not None:
                context.load_verify_locations(self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key, password=_no_passphrase)
        except (OSError, ValueError) as error:
            why = getattr(error, "reason", None) or error
            files = ", ".join(map(str, self._paths()))
            raise Refused(
                f"the TLS files {files} cannot be used ({why}): they must be PEM, and the key must "
                "match the certificate"
            ) from None
        return context

    def read(self) -> TlsTexts:
        """The contents, checked like ``context``. Raises ``Refused``."""
        for _ in range(_TRIES):
            before = self.state()
            self.context()
            ca, certificate, key = (
                None if path is None else path.read_bytes()
                for path in (self.ca, self.certificate, self.key)
            )
            if self.state() == before:
                return TlsTexts(ca, certificate, key or certificate)
        raise Refused(f"{', '.join(map(str, self._paths()))} keep changing: try again")

    def state(self) -> _State:
        """A value that changes when a file is replaced."""
        return tuple(map(_state, self._paths()))

    def _paths(self) -> list[Path]:
        return [path for path in (self.ca, self.certificate, self.key) if path is not None]


class TlsWatch:
    """The contents of TLS files, reread when they change. Safe to use from any thread."""

    def __init__(self, files: TlsFiles) -> None:
        """Reads them. Raises ``Refused``."""
        self._files = files
        self._lock = threading.Lock()
        self._seen = files.state()
        self._texts = files.read()

    @property
    def texts(self) -> TlsTexts:
        """The current contents."""
        return self._texts

    def renewed(self) -> TlsTexts | None:
        """The new contents if the files have changed, else None. Checks the files each time.

        New files that cannot be used are logged once, and the previous ones stay in use.
        """
        with self._lock:
            state = self._files.state()
            if state == self._seen:
                return None
            self._seen = state
            try:
                texts = self._files.read()
            except (Refused, OSError) as error:
                _log.warning(
                    "the new TLS files cannot be used, keeping the previous ones: %s", error
                )
                return None
            if texts == self._texts:
                return None
            self._texts = texts
            return texts


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _no_passphrase() -> str:
    raise ValueError("the key has a passphrase: store it without one, readable only by its user")


def own_authorities() -> bytes | None:
    """The authorities (PEM) in ``SSL_CERT_FILE``, which Python's ``ssl`` reads itself and gRPC does
    not; None if gRPC has its own or none are given. Blocks. Raises ``Refused``."""
    path = os.environ.get("SSL_CERT_FILE")
    if not path or "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH" in os.environ:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Refused(f"SSL_CERT_FILE names {path}, which can't be read: {error}") from None
