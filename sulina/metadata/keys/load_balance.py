"""The leader's view of the load: ``/cluster/load_balance``, and its recent moves.

``/cluster/load_balance`` is for people and tools; ``/cluster/load_balance/moves`` lets the next
leader continue with the cooldowns of the previous one. Both are guarded by the term.
"""

from __future__ import annotations

from sulina.metadata.keys import leader
from sulina.metadata.store import MetadataStore, Op, Put

KEY = "/cluster/load_balance"
MOVES = "/cluster/load_balance/moves"


async def post(store: MetadataStore, term: int, ranking: bytes, moves: bytes | None) -> bool:
    """Write both (``moves`` only if not None); False if the term is over."""
    ops: list[Op] = [Put(KEY, ranking)]
    if moves is not None:
        ops.append(Put(MOVES, moves))
    return (await store.txn([leader.in_term(term)], ops)).succeeded


async def last_moves(store: MetadataStore) -> bytes | None:
    """The moves that the previous leader stored."""
    item = await store.get(MOVES)
    return None if item is None else item.value
