"""Opens the cold tier of a process from its URL."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from storage_grpc.tier.helper import TierHelper, can_share
from storage_grpc.tier.tier import CACHE_BYTES, EntrySource
from sulina.errors import SulinaError
from sulina.lake import require_lake
from sulina.lake.layout import ROOT
from sulina.runtime.seam import Clock, Randomness
from sulina.runtime.tasks import stop_tasks
from sulina.runtime.threads import ThreadRunner

if TYPE_CHECKING:
    from storage_grpc.tier.local import LocalTier
    from sulina.objects.store import ObjectStore

_log = logging.getLogger(__name__)
_CLEAN_SECONDS: Final = 3600.0
_STALE_SECONDS: Final = 86_400.0
"""Uploads older than this are aborted: an offload ends much earlier."""
_THREADS: Final = 4


@asynccontextmanager
async def open_tier(
    url: str,
    source: EntrySource,
    clock: Clock,
    randomness: Randomness,
    *,
    cache_bytes: int = CACHE_BYTES,
) -> AsyncIterator[LocalTier]:
    """The tier at ``url``; a task aborts unfinished uploads periodically.

    Raises ``Refused`` for an invalid URL, and if a package is missing, with the remedy.
    """
    require_lake()
    from storage_grpc.tier.local import LocalTier
    from sulina.objects.opening import open_store

    async with open_store(url, clock, randomness) as store:
        helper = TierHelper(url, clock) if can_share(url) else None
        tier = LocalTier(
            store, source, ThreadRunner(_THREADS), cache_bytes=cache_bytes, helper=helper
        )
        cleaning = asyncio.create_task(_clean(store, clock), name="stale-uploads")
        try:
            yield tier
        finally:
            await stop_tasks(cleaning)
            await tier.close()


def without_secrets(url: str) -> str:
    """A URL without user, password, port and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


async def _clean(store: ObjectStore, clock: Clock) -> None:
    while True:
        try:
            count = await store.abort_stale_uploads(ROOT, _STALE_SECONDS)
            if count:
                _log.warning("aborted %d unfinished uploads", count)
        except SulinaError as error:
            _log.warning("aborting unfinished uploads failed, will retry: %s", error)
        await clock.sleep(_CLEAN_SECONDS)
