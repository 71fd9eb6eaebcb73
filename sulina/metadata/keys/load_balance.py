"""What the leader makes of the load: ``/cluster/load_balance``, and the moves that it made lately.

``/cluster/load_balance`` is for people and tools; ``/cluster/load_balance/moves`` is for the next
leader, which goes on with the cooldowns of the one before. Both are written under the term's guard.
"""

from __future__ import annotations

from sulina.metadata.keys import leader
from sulina.metadata.store import MetadataStore, Op, Put

KEY = "/cluster/load_balance"
MOVES = "/cluster/load_balance/moves"


async def post(store: MetadataStore, term: int, ranking: bytes, moves: bytes | None) -> bool:
    """Write both, ``moves`` if there are new ones; False if the term is over."""
    ops: list[Op] = [Put(KEY, ranking)]
    if moves is not None:
        ops.append(Put(MOVES, moves))
    return (await store.txn([leader.in_term(term)], ops)).succeeded


async def last_moves(store: MetadataStore) -> bytes | None:
    """What the leader before has noted."""
    item = await store.get(MOVES)
    return None if item is None else item.value
