"""Reads records from the brokers as Arrow batches, without a subscription.

The brokers check the caller's right to consume. They serve whatever a topic has, from memory, from
storage nodes or from objects, so any piece can be read here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import numpy as np
import pyarrow as pa

from sulina.client.client import Client
from sulina.errors import NotFound, Unavailable
from sulina.lake.arrow import frames_to_batch
from sulina.lake.buffers import integers
from sulina.lake.schema import OFFSET
from sulina.live.snapshot import Piece
from sulina.model import Start

_BYTES: Final = 4 << 20
"""Of frames in one answer."""


async def read_piece(client: Client, piece: Piece) -> AsyncIterator[pa.RecordBatch]:
    """The records of ``piece`` in the order of their offsets, with the columns of an object.

    Holds one answer of the broker at a time. Raises ``NotFound`` if retention has deleted records
    of the piece, and what ``Client.read_frames`` raises.
    """
    position = piece.start
    while position < piece.end:
        read = await client.read_frames(piece.topic, Start.offset(position), max_bytes=_BYTES)
        if read.next_offset <= position:
            raise Unavailable(
                f"the broker has nothing at offset {position} of {piece.topic}, which ended at "
                f"{piece.end} a moment ago: try again"
            )
        batch = frames_to_batch(read.frames)
        offsets = integers(batch.column(OFFSET))
        if not len(offsets) or offsets[0] > position:
            await _check_kept(client, piece, position)
        first, end = np.searchsorted(offsets, [position, piece.end]).tolist()
        if first < end:
            yield batch.slice(first, end - first)
        position = read.next_offset


async def _check_kept(client: Client, piece: Piece, position: int) -> None:
    """Where a topic keeps only the newest record of a key, some are missing, but none at its start.

    Raises ``NotFound`` if the topic now begins after ``position``.
    """
    start = (await client.admin.topics.log(piece.topic)).start_offset
    if start > position:
        raise NotFound(
            f"records {position} to {start - 1} of {piece.topic} no longer exist: retention "
            "deleted them while they were read. Run it again"
        )
