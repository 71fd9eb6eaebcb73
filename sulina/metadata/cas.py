"""Compare-and-swap helpers for any metadata store.

None of them retries after ``UnknownOutcome``: only the caller can tell from the stored value
whether its change was made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sulina.errors import Overloaded
from sulina.metadata.store import Absent, Compare, KeyValue, MetadataStore, ModRevisionIs, Put

DEFAULT_TRIES = 16


async def create(
    store: MetadataStore, key: str, value: bytes, *, lease: int = 0, guards: Sequence[Compare] = ()
) -> bool:
    """Create ``key`` unless it exists; returns whether this call created it.

    ``guards`` are further conditions of the transaction.
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
    """Write ``key`` if its revision is still ``expected_mod_revision`` (0: if it is absent).

    Returns the new revision, or None if the key has changed. The key is detached from its previous
    lease unless ``lease`` names it again.
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
    """Replace a value by ``change(current)``; retries on the newer value after a lost race.

    ``change`` receives None for an absent key, may return None to leave the key unchanged, and runs
    once per try. Returns its last result. Raises ``Overloaded`` after ``tries`` lost races.
    """
    for _ in range(tries):
        current = await store.get(key)
        value = change(current)
        if value is None:
            return None
        revision = 0 if current is None else current.mod_revision
        if await swap(store, key, revision, value) is not None:
            return value
    raise Overloaded(f"{key!r} was changed concurrently {tries} times in a row: try again later")
