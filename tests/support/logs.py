"""Appends to a topic's log, for tests that wait for each append."""

from __future__ import annotations

import asyncio

from broker_containers.topic_log.log import Log
from broker_containers.topic_log.tail_cache import CachedFrame
from sulina.errors import SulinaError
from sulina.wire.header import check_frame


def append(log: Log, frame: bytes) -> asyncio.Future[CachedFrame]:
    """The outcome of appending a frame."""
    result: asyncio.Future[CachedFrame] = asyncio.get_running_loop().create_future()

    def done(outcome: CachedFrame | SulinaError) -> None:
        if isinstance(outcome, SulinaError):
            result.set_exception(outcome)
        else:
            result.set_result(outcome)

    data = memoryview(bytearray(frame))
    log.append(data, check_frame(data), done)
    return result
