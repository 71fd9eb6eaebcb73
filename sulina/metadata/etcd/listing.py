"""Listings of any length, read in pages that fit into a request's time, at one revision."""

from __future__ import annotations

from sulina.errors import Unavailable
from sulina.metadata.etcd.codec import EtcdCodec, Json, revision_of
from sulina.metadata.etcd.failures import RevisionGone
from sulina.metadata.etcd.gateway import EtcdGateway
from sulina.metadata.store import KeyValue, Listing

FIRST_PAGE = 128
LARGEST_PAGE = 4096
PAGE_BYTES = 2 << 20
_TRIES = 4


async def list_keys(
    gateway: EtcdGateway,
    codec: EtcdCodec,
    prefix: str,
    *,
    limit: int | None,
    after: str | None,
    keys_only: bool,
) -> Listing:
    """``MetadataStore.range``. Starts over if its revision is compacted meanwhile."""
    for _ in range(_TRIES):
        try:
            return await _list_once(gateway, codec, prefix, limit, after, keys_only)
        except RevisionGone:
            continue
    raise Unavailable(
        f"listing {prefix!r} failed: its revision was compacted {_TRIES} times meanwhile; try again"
    )


async def _list_once(
    gateway: EtcdGateway,
    codec: EtcdCodec,
    prefix: str,
    limit: int | None,
    after: str | None,
    keys_only: bool,
) -> Listing:
    items: list[KeyValue] = []
    revision = 0
    page = FIRST_PAGE
    while True:
        wanted = page if limit is None else min(page, limit - len(items))
        request: Json = codec.below(prefix, after) | {"limit": str(wanted)}
        if keys_only:
            request["keys_only"] = True
        if revision:
            request["revision"] = str(revision)
        answer = (await gateway.call("/kv/range", request, repeatable=True)).body
        revision = revision or revision_of(answer)
        found = codec.items(answer)
        items += found
        more = bool(answer.get("more", False))
        if not more or len(items) == limit:
            return Listing(tuple(items), revision, more)
        after = found[-1].key
        page = next_page(page, sum(len(item.key) + len(item.value) for item in found))


def next_page(page: int, size: int) -> int:
    """How many keys to request next if ``page`` of them had ``size`` bytes."""
    if size > PAGE_BYTES:
        return max(page * PAGE_BYTES // size, 1)
    return min(page * 2, LARGEST_PAGE)
