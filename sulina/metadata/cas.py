"""Compare-and-swap idioms, built on the store's interface alone.

None of these tries again after an ``UnknownOutcome``: only the caller knows how to tell from the
stored value whether its change happened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sulina.errors import Overloaded
from sulina.metadata.store import Absent, Compare, KeyValue, MetadataStore, ModRevisionIs, Put

DEFAULT_TRIES = 16


async def create(
    store: MetadataStore, key: str, value: bytes, *, lease: int = 0, guards: Sequence[Compare] = ()
) -> bool:
    """Write ``key`` unless it exists; returns whether this call wrote it.

    ``guards`` must hold as well, here and below.
    """
    result = await store.txn([Absent(key), *guards], [Put(key, value, lease)])
    return result.succeeded


async def swap(
    store: MetadataStore,
    key: str,
    expected_mod_revision: int,
    value: bytes,
    *,
    lease: int = 0,
    guards: Sequence[Compare] = (),
) -> int | None:
    """Write ``key`` if nobody changed it since ``expected_mod_revision`` (0: if it is absent).

    Returns the new revision, or None if somebody did. A lease it had lets go of it, unless it is
    named again.
    """
    result = await store.txn(
        [ModRevisionIs(key, expected_mod_revision), *guards], [Put(key, value, lease)]
    )
    return result.revision if result.succeeded else None


async def update(
    store: MetadataStore,
    key: str,
    change: Callable[[KeyValue | None], bytes | None],
    *,
    tries: int = DEFAULT_TRIES,
) -> bytes | None:
    """Replace the value by ``change(current)``, once more on the newer one if somebody was faster.

    ``change`` gets None for an absent key and may return None to leave the key as it is; it runs
    once a try. Returns what it returned last. Raises ``Overloaded`` after ``tries`` lost races.
    """
    for _ in range(tries):
        current = await store.get(key)
        value = change(current)
        if value is None:
            return None
        revision = 0 if current is None else current.mod_revision
        if await swap(store, key, revision, value) is not None:
            return value
    raise Overloaded(f"{key!r} was changed by others {tries} times in a row: try again later")
