"""The leader's view of the load: ``/cluster/load_balance``, its recent moves, and their history.

``/cluster/load_balance`` is for people and tools; ``/cluster/load_balance/moves`` lets the next
leader continue with the cooldowns of the previous one, ``/cluster/load_balance/history`` with what
it tells people. All are guarded by the term.
"""

from __future__ import annotations

from sulina.metadata.keys import leader
from sulina.metadata.store import MetadataStore, Op, Put

KEY = "/cluster/load_balance"
MOVES = "/cluster/load_balance/moves"
HISTORY = "/cluster/load_balance/history"


async def post(
    store: MetadataStore, term: int, ranking: bytes, moves: bytes | None, history: bytes | None
) -> bool:
    """Write all (``moves`` and ``history`` only if not None); False if the term is over."""
    ops: list[Op] = [Put(KEY, ranking)]
    if moves is not None:
        ops.append(Put(MOVES, moves))
    if history is not None:
        ops.append(Put(HISTORY, history))
    return (await store.txn([leader.in_term(term)], ops)).succeeded


async def last_moves(store: MetadataStore) -> bytes | None:
    """The moves that the previous leader stored."""
    item = await store.get(MOVES)
    return None if item is None else item.value


async def last_history(store: MetadataStore) -> bytes | None:
    """The history that the previous leader stored."""
    item = await store.get(HISTORY)
    return None if item is None else item.value
