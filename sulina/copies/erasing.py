"""Waits for erasures that the brokers carry out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sulina.errors import Refused, Retriable, UnknownOutcome
from sulina.metadata.keys.erasures import ErasureState
from sulina.operations.client import AdminClient
from sulina.operations.ledgers import TopicErasure
from sulina.runtime.seam import Clock

_LOOK_SECONDS: Final = 0.3


async def wait_erased(
    admin: AdminClient,
    asked: TopicErasure,
    clock: Clock,
    show: Callable[[TopicErasure], None] = lambda _: None,
) -> TopicErasure:
    """Wait until a request has ended, through takeovers; ``show`` gets its progress.

    Raises ``Refused`` if it failed or was cancelled, or is not remembered any more.
    """
    now = asked
    while not now.state.ended:
        show(now)
        await clock.sleep(_LOOK_SECONDS)
        try:
            known = await admin.ledgers.erasures(asked.topic)
        except (Retriable, UnknownOutcome):
            continue  # the topic moves; its next owner goes on
        found = next((each for each in known if each.id == asked.id), None)
        if found is None:
            raise Refused(f"erasure {asked.id} of {asked.topic} is not remembered any more")
        now = found
    if now.state is not ErasureState.DONE:
        raise Refused(f"erasing from {now.topic} ended: {now.state}. {now.problem}".rstrip())
    return now
