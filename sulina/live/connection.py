"""A client for blocking code, which calls it from any thread, one call at a time.

The client's event loop runs in a thread of its own, so that the connection is served while the
caller computes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

import pyarrow as pa

from sulina.client.client import Client
from sulina.live.snapshot import Piece
from sulina.live.tail import read_piece

_T = TypeVar("_T")


class BlockingConnection:
    """Runs a client. Use it in ``with``, which connects, and closes the client in the end."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        """Connect. Raises ``Unavailable`` and ``Refused``."""
        self._thread.start()
        try:
            self.run(self.client.open())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.run(self.client.close())
        finally:
            self._stop()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Wait for ``work``, whose calls of the client have deadlines of their own."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def batches(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """The records of ``piece``, from the brokers: see ``read_piece``."""
        source = read_piece(self.client, piece)
        while (batch := self.run(_next(source))) is not None:
            yield batch

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _next(source: AsyncIterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return await anext(source, None)
