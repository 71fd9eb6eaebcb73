"""Opens the cold tier of a process by its URL."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from storage_grpc.tier.settings import TierSettings
from storage_grpc.tier.tier import EntrySource
from sulina.errors import SulinaError
from sulina.lake import require_lake
from sulina.lake.layout import ROOT
from sulina.runtime.aside import Aside
from sulina.runtime.seam import Clock, Randomness

if TYPE_CHECKING:
    from storage_grpc.tier.local import LocalTier
    from sulina.objects.store import ObjectStore

_log = logging.getLogger(__name__)
_CLEAN_SECONDS: Final = 3600.0
_STALE_SECONDS: Final = 86_400.0
"""An upload that began so long ago is nobody's any more: an offload ends much earlier."""
_THREADS: Final = 4


@asynccontextmanager
async def open_tier(
    url: str,
    source: EntrySource,
    clock: Clock,
    randomness: Randomness,
    settings: TierSettings | None = None,
) -> AsyncIterator[LocalTier]:
    """The tier at ``url``, until left; uploads that nobody finished are cleaned meanwhile.

    Raises ``Refused`` for a URL that can't be, and with the remedy if a package is missing.
    """
    require_lake()
    from storage_grpc.tier.local import LocalTier
    from sulina.objects.opening import open_store

    async with open_store(url, clock, randomness) as store:
        tier = LocalTier(store, source, Aside(_THREADS), settings)
        cleaning = asyncio.create_task(_clean(store, clock), name="stale-uploads")
        try:
            yield tier
        finally:
            cleaning.cancel()
            await asyncio.gather(cleaning, return_exceptions=True)
            await tier.close()


def without_secrets(url: str) -> str:
    """A URL without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


async def _clean(store: ObjectStore, clock: Clock) -> None:
    while True:
        try:
            count = await store.abort_stale_uploads(ROOT, _STALE_SECONDS)
            if count:
                _log.warning("%d uploads that nobody finished were given up", count)
        except SulinaError as error:
            _log.warning("stale uploads stay for now: %s", error)
        await clock.sleep(_CLEAN_SECONDS)
