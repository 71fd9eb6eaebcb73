"""Certificates in files: whom a process trusts, what it shows, and when they were replaced.

Files are read whole or not at all: a certificate without its key, as there is for a moment while
both are being replaced, is not taken, and what was read before counts on.
"""

from __future__ import annotations

import logging
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
    """What is in the files, as libraries take it that do not use Python's contexts."""

    ca: bytes | None
    certificate: bytes | None
    key: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Whom to trust, and what to show; PEM files. Without ``ca`` the machine's trust decides."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    """May be left out if it is in the certificate's file."""

    def context(self) -> ssl.SSLContext:
        """A client's context that checks names and certificates. Reads the files.

        Raises ``Refused`` if they can't be used. Never asks for a key's passphrase: a key that has
        one is refused.
        """
        return self._loaded(None)

    def renew(self, context: ssl.SSLContext) -> None:
        """Let a context that was made here use what is in the files now, for new connections.

        What it trusted before it trusts on. Raises ``Refused``.
        """
        self._loaded(context)

    def _loaded(self, context: ssl.SSLContext | None) -> ssl.SSLContext:
        for path in self._paths():
            try:
                path.read_bytes()
            except OSError as error:
                raise Refused(
                    f"{path} can't be read ({error.strerror or error}): put the PEM file there, "
                    "readable for this process, or name another"
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
                f"the TLS files {files} can't be used ({why}): they must be PEM, and the key must "
                "belong to the certificate"
            ) from None
        return context

    def read(self) -> TlsTexts:
        """The contents, checked as ``context`` does. Raises ``Refused``."""
        for _ in range(_TRIES):
            before = self.state()
            self.context()
            ca, certificate, key = (
                None if path is None else path.read_bytes()
                for path in (self.ca, self.certificate, self.key)
            )
            if self.state() == before:
                return TlsTexts(ca, certificate, key or certificate)
        raise Refused(f"{', '.join(map(str, self._paths()))} are changing all the time")

    def state(self) -> _State:
        """Differs when a file was replaced."""
        return tuple(map(_state, self._paths()))

    def _paths(self) -> list[Path]:
        return [path for path in (self.ca, self.certificate, self.key) if path is not None]


class TlsWatch:
    """The contents of TLS files, read again when the files change. For any thread."""

    def __init__(self, files: TlsFiles) -> None:
        """Reads them. Raises ``Refused``."""
        self._files = files
        self._lock = threading.Lock()
        self._seen = files.state()
        self._texts = files.read()

    @property
    def texts(self) -> TlsTexts:
        """What was read last."""
        return self._texts

    def renewed(self) -> TlsTexts | None:
        """What is in the files, if it is not what was told before; looks at the files each time.

        New files that can't be used are told to the log once, and what was there before counts on.
        """
        with self._lock:
            state = self._files.state()
            if state == self._seen:
                return None
            self._seen = state
            try:
                texts = self._files.read()
            except (Refused, OSError) as error:
                _log.warning("new TLS files are not used yet: %s", error)
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
    raise ValueError("the key has a passphrase: store it without one, readable by its user alone")
