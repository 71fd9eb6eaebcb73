"""Reads entries of a replicated ledger: from one node, and from the next if that one is slow."""

from __future__ import annotations

import asyncio

from storage_grpc.entries import Entry
from storage_grpc.node import Node
from storage_grpc.quorum.calls import ask
from storage_grpc.quorum.nodes import Nodes
from storage_grpc.quorum.settings import QuorumSettings
from sulina.errors import CorruptEntry, NotFound, SulinaError, Unavailable
from sulina.metadata.keys.ledger_metadata import LedgerMetadata
from sulina.runtime.seam import Clock


class QuorumReader:
    """Reads from whichever copy answers first, and never returns one that fails its checksum."""

    def __init__(self, nodes: Nodes, clock: Clock, settings: QuorumSettings) -> None:
        self._nodes = nodes
        self._clock = clock
        self._settings = settings

    async def read(
        self,
        ledger: int,
        metadata: LedgerMetadata,
        first: int,
        *,
        max_entries: int,
        max_bytes: int,
        head: int | None,
    ) -> list[Entry]:
        """Consecutive entries from ``first`` on, of one fragment. Raises ``NotFound`` only if
        every copy is certain, ``CorruptEntry`` if all that answered are damaged."""
        ends = [f.first_entry for f in metadata.fragments if f.first_entry > first]
        if ends:
            max_entries = min(max_entries, ends[0] - first)

        async def call(node: Node) -> list[Entry]:
            return await node.read(
                ledger, first, max_entries=max_entries, max_bytes=max_bytes, head=head
            )

        members = self._preferred(metadata.ensemble_of(first), ledger)
        errors: list[SulinaError] = []
        asking: set[asyncio.Task[list[Entry] | SulinaError]] = set()
        try:
            while members or asking:
                if members:
                    timeout = self._settings.call_timeout
                    reading = ask(self._nodes, self._clock, timeout, members.pop(0), call)
                    asking.add(asyncio.create_task(reading))
                answered = await self._first_answer(asking, hedge=bool(members))
                for task in answered:
                    asking.discard(task)
                    answer = task.result()
                    if isinstance(answer, list):
                        return answer
                    errors.append(answer)
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        raise self._verdict(ledger, first, errors)

    def _preferred(self, ensemble: tuple[str, ...], ledger: int) -> list[str]:
        """The ensemble from another member on for each ledger, so that readers are spread."""
        start = ledger % len(ensemble)
        return [*ensemble[start:], *ensemble[:start]]

    async def _first_answer(
        self, asking: set[asyncio.Task[list[Entry] | SulinaError]], *, hedge: bool
    ) -> set[asyncio.Task[list[Entry] | SulinaError]]:
        """Those that answered; none after a while, if another copy can be asked meanwhile."""
        if not hedge:
            done, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            return done
        pause = asyncio.create_task(self._clock.sleep(self._settings.hedge_after))
        try:
            await asyncio.wait({*asking, pause}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            await asyncio.gather(pause, return_exceptions=True)
        return {task for task in asking if task.done()}

    def _verdict(self, ledger: int, first: int, errors: list[SulinaError]) -> SulinaError:
        if all(isinstance(error, NotFound) for error in errors):
            return NotFound(f"ledger {ledger} has no entry {first}")
        for error in errors:
            if isinstance(error, CorruptEntry):
                return error
        why = "; ".join(map(str, errors))
        return Unavailable(f"no copy of entry {first} of ledger {ledger} can be read now ({why})")
