"""Reads entries of a replicated ledger from one node, and from the next if that one is slow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from storage_grpc.entries import Entry
from storage_grpc.node import Node
from storage_grpc.quorum.calls import ask
from storage_grpc.quorum.nodes import Nodes
from storage_grpc.quorum.settings import QuorumTimeouts
from sulina.errors import CorruptEntry, NotFound, SulinaError, Unavailable
from sulina.metadata.keys.ledger_metadata import LedgerMetadata
from sulina.runtime.seam import Clock


class QuorumReader:
    """Returns the first copy that is read successfully; nodes verify checksums."""

    def __init__(
        self, nodes: Nodes, clock: Clock, timeouts: QuorumTimeouts, near: Callable[[str], bool]
    ) -> None:
        """Members that are ``near`` are asked first."""
        self._near = near
        self._nodes = nodes
        self._clock = clock
        self._timeouts = timeouts

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
        """Consecutive entries of one fragment, starting with ``first``.

        Raises ``NotFound`` if every node of the ensemble answers that there is no such entry, else
        ``CorruptEntry`` if a copy is damaged, else ``Unavailable``.
        """
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
                    member, seconds = members.pop(0), self._timeouts.call
                    reading = ask(self._nodes, self._clock, seconds, member, call)
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
        """The ensemble, near members first, else rotated by ledger so that reads are spread."""
        start = ledger % len(ensemble)
        rotated = [*ensemble[start:], *ensemble[:start]]
        return sorted(rotated, key=lambda member: not self._near(member))

    async def _first_answer(
        self, asking: set[asyncio.Task[list[Entry] | SulinaError]], *, hedge: bool
    ) -> set[asyncio.Task[list[Entry] | SulinaError]]:
        """The finished reads. With ``hedge``, none of them if all take longer than that timeout."""
        if not hedge:
            done, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            return done
        pause = asyncio.create_task(self._clock.sleep(self._timeouts.hedge))
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
        return Unavailable(
            f"no copy of entry {first} of ledger {ledger} can be read, try again later ({why})"
        )
