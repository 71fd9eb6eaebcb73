"""The machine's network: TCP connections, optionally with TLS."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl

from sulina.errors import NobodyThere, Refused, Unavailable


class RealNetwork:
    """Connects over TCP. ``tls`` is a context, or the path of a file of trusted certificates;
    without it, secure connections trust the system's certificates."""

    def __init__(self, tls: ssl.SSLContext | str | os.PathLike[str] | None = None) -> None:
        self._tls = tls

    async def dial(
        self,
        protocol: asyncio.BufferedProtocol,
        host: str,
        port: int,
        *,
        secure: bool,
        name: str = "",
    ) -> None:
        """Connect ``protocol``. Raises ``NobodyThere`` if every address refuses the connection,
        ``Refused`` if TLS fails, and ``Unavailable`` for other failures."""
        context = self._context() if secure else None
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(
                lambda: protocol,
                host,
                port,
                ssl=context,
                server_hostname=(name or None) if secure else None,
            )
        except UnicodeError:
            raise Refused(f"{host!r} is not a valid host name: check its spelling") from None
        except ssl.SSLError as error:
            raise Refused(
                f"no TLS connection to {host}:{port} ({error.reason or error}): "
                "check the certificates, and that the broker's port speaks TLS"
            ) from None
        except socket.gaierror as error:
            raise Unavailable(
                f"the host {host} has no address ({error.strerror}): check its spelling"
            ) from None
        except OSError as error:
            nowhere = f"no broker at {host}:{port}"
            if isinstance(error, ConnectionRefusedError):
                raise NobodyThere(f"{nowhere}: is `sulina up` running?") from None
            why = "" if error.errno is None else f" ({error.strerror})"
            raise Unavailable(f"{nowhere}{why}: is `sulina up` running?") from None

    def _context(self) -> ssl.SSLContext:
        if isinstance(self._tls, ssl.SSLContext):
            return self._tls
        try:
            self._tls = ssl.create_default_context(cafile=self._tls)
        except (OSError, ssl.SSLError) as error:
            raise Refused(f"the certificates in {self._tls} cannot be read: {error}") from None
        return self._tls
