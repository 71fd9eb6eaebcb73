"""An object store for programs without an event loop, such as Spark's Python processes."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import Any, Final, TypeVar

from sulina.errors import NotFound
from sulina.objects.opening import open_store
from sulina.objects.store import ObjectInfo, ObjectStore
from sulina.runtime.real_clock import RealClock
from sulina.runtime.real_random import real_random

_T = TypeVar("_T")
_PAGE: Final = 1000
_lock = threading.Lock()
_opened: Final[dict[tuple[int, str], BlockingStore]] = {}
_MAX_OPENED: Final = 16


class BlockingStore:
    """Reads from the store of a URL. Calls block and are thread-safe; use ``blocking_store``.

    The store runs on an event loop in a thread of its own, which ends with the process.
    """

    def __init__(self, url: str) -> None:
        """Sends no request. Raises ``Refused`` for an invalid URL or a missing package."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._resources = AsyncExitStack()
        try:
            self._store: ObjectStore = self._run(
                self._resources.enter_async_context(open_store(url, RealClock(), real_random()))
            )
        except BaseException:
            self._stop()
            raise

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """All objects whose keys start with ``prefix``, in order, a page at a time."""
        after = ""
        while True:
            page = self._run(self._store.list(prefix, after=after, limit=_PAGE))
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1].key

    def any(self, prefix: str) -> bool:
        """Whether there is an object whose key starts with ``prefix``."""
        return bool(self._run(self._store.list(prefix, limit=1)))

    def info(self, key: str) -> ObjectInfo:
        """The object's size and age. Raises ``NotFound``."""
        found = self._run(self._store.info(key))
        if found is None:
            raise NotFound(f"the object {key} does not exist")
        return found

    def get(self, key: str, start: int, end: int) -> bytes:
        """See ``ObjectStore.get``."""
        return self._run(self._store.get(key, start, end))

    def close(self) -> None:
        """Close connections and end the thread."""
        try:
            self._run(self._resources.aclose())
        finally:
            self._stop()

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Wait for ``work``, whose requests have deadlines of their own."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def blocking_store(url: str) -> BlockingStore:
    """The store of a URL, one for all users in a process, and another one in a forked process.

    At most 16 are kept open. Raises as ``BlockingStore`` does.
    """
    key = (os.getpid(), url)
    with _lock:
        found = _opened.get(key)
        if found is None:
            if len(_opened) >= _MAX_OPENED:
                _opened.pop(next(iter(_opened)))  # who still uses it keeps it
            found = _opened[key] = BlockingStore(url)
    return found
