"""How commands run on an event loop, connect to a broker, and call its admin methods."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sulina.cli.settings import CliSettings
from sulina.errors import Refused
from sulina.runtime.user_files import login_file

if TYPE_CHECKING:
    import asyncio
    import ssl

    from sulina import Client
    from sulina.client.options import TokenSource
    from sulina.operations.client import AdminClient

_T = TypeVar("_T")


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run ``work`` on an event loop: uvloop's if it is installed.

    The first Ctrl-C or SIGTERM cancels ``work`` and raises ``KeyboardInterrupt`` when it has
    ended; a second Ctrl-C raises it immediately.
    """
    import asyncio

    async def interruptible() -> _T:
        task = asyncio.current_task()
        assert task is not None
        # asyncio handles Ctrl-C itself.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        try:
            return runner.run(interruptible())
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, or None for asyncio's default."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


@asynccontextmanager
async def connected(settings: CliSettings, *, stored: bool = True) -> AsyncIterator[Client]:
    """A client of the broker in the settings. Raises ``Unavailable`` if it can't be reached."""
    async with make_client(settings, stored=stored) as client:
        yield client


def make_client(settings: CliSettings, *, stored: bool = True) -> Client:
    """A client of the broker in the settings, which is not connected yet.

    Without a token and a certificate, and if ``stored``, it uses the token of `sulina login`.
    """
    import sulina

    token: TokenSource = settings.token
    if stored and not token and settings.tls_cert is None and login_file(settings.url).exists():
        token = sulina.stored_login(settings.url)
    return sulina.connect(
        settings.url,
        token=token,
        tls=_tls(settings),
        connect_timeout=settings.timeout,
        operation_timeout=settings.timeout,
    )


def _tls(settings: CliSettings) -> ssl.SSLContext | str | None:
    """What ``sulina.connect`` takes. Raises ``Refused`` for files that can't be used."""
    if settings.tls_cert is None:
        if settings.tls_key is not None:
            raise Refused("--tls-key needs --tls-cert, the certificate that the key is for")
        return settings.tls_ca
    if not settings.url.startswith("sulina+tls://"):
        raise Refused("--tls-cert needs TLS: use a URL that starts with sulina+tls://")
    from sulina.runtime.tls_files import TlsFiles

    given = settings.tls_ca, settings.tls_cert, settings.tls_key
    return TlsFiles(*(None if each is None else Path(each) for each in given)).context()


def ask(settings: CliSettings, call: Callable[[AdminClient], Awaitable[_T]]) -> _T:
    """Run one administrative operation on the broker: ``ask(settings, lambda a: a.topics.list())``.

    Raises what the operation raises, and ``Unavailable`` if there is no broker.
    """

    async def work() -> _T:
        async with connected(settings) as client:
            return await call(client.admin)

    return run(work())
