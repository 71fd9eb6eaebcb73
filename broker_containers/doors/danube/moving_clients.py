"""Keeps the door of a stopping broker open until clients know the new owners of their topics.

Stock clients know the address of one broker, and ask only there where a topic has moved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sulina.runtime.seam import Clock

_POLL_SECONDS: Final = 0.2


async def clients_moved(
    clock: Clock,
    asked: Callable[[], float],
    *,
    attached: int,
    quiet_seconds: float,
    seconds: float,
    others: Callable[[], bool],
) -> None:
    """Wait until no client has asked for ``quiet_seconds``; at most ``seconds``, and only while
    there are ``others`` to send clients to.

    ``asked`` returns when a client last asked where a topic is, ``attached`` is the number of
    clients that this broker served. Without any, and if none has asked recently, it returns at
    once.
    """
    began = clock.now()
    if not attached and asked() <= began - quiet_seconds:
        return
    end = began + seconds
    while (now := clock.now()) < min(max(began, asked()) + quiet_seconds, end) and others():
        await clock.sleep(min(_POLL_SECONDS, end - now))
