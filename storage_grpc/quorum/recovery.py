"""Finds the end of a ledger whose writer may be gone, and closes it there.

It fences so many nodes that no ack quorum can succeed any more, then reads entries from the highest
LAC on until so many nodes deny the next entry that no ack quorum can have it. An answer that is
neither an entry nor a denial is unknown: too many of them make the recovery fail, to be tried
again. It never cuts a ledger short because a node did not answer. A node that may have lost data
can't deny for certain; its denial counts on the assumption that fewer nodes than the ack quorum
lost data, so that a ledger can be recovered after all its nodes lost power.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from storage_grpc.entries import Entry
from storage_grpc.node import FencedLedger, MaybeLost, Node
from storage_grpc.quorum.calls import Answers, Call, ask_all
from storage_grpc.quorum.nodes import Nodes, replacements
from sulina.errors import Fenced, NotFound, Retriable, SulinaError, Unavailable
from sulina.metadata.keys import ledger_metadata
from sulina.metadata.keys.ledger_metadata import (
    Fragment,
    LedgerMetadata,
    LedgerPhase,
    StoredMetadata,
)
from sulina.metadata.store import MetadataStore
from sulina.runtime.seam import Clock

_T = TypeVar("_T")
_FIRST_BATCH = 16
_LARGEST_BATCH = 1024
"""Entries in one read. The first reads are small because usually few entries are left to read."""
_BATCH_BYTES = 4 << 20


class Recovery:
    """One attempt to recover one ledger."""

    def __init__(
        self,
        ledger: int,
        nodes: Nodes,
        store: MetadataStore,
        clock: Clock,
        call_timeout: float,
    ) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._store = store
        self._clock = clock
        self._call_timeout = call_timeout
        self.entries: list[Entry] = []
        """After ``run``: all entries of a small ledger, if the answers to the fences had them."""

    async def run(self) -> LedgerMetadata:
        """Close the ledger; returns its final metadata.

        Raises ``Retriable`` if too few nodes answered or another broker recovers it at the same
        time: nothing is lost then, try again. Raises ``NotFound`` if it was deleted.
        """
        stored = await self._begin()
        if stored.value.last_entry is not None:
            return stored.value
        metadata = stored.value
        fragment = self._unfinished_fragment(metadata)
        fenced = await self._fence(metadata, fragment.ensemble)
        lac = max(fragment.first_entry - 1, *(found.lac for found in fenced.values()))
        end = self._known_end(metadata, list(fenced.values()))
        before = next((found for each in fenced.values() if (found := each.shows(0))), [])
        self.entries = before[: lac + 1]
        last, final = await self._find_end(metadata, fragment.ensemble, lac, end, fenced)
        closed = await self._close(stored, final.closed(last))
        if len(self.entries) != last + 1:
            self.entries = []
        return closed

    async def _begin(self) -> StoredMetadata:
        """Mark the ledger as in recovery, so that its writer can no longer change the metadata."""
        stored = await ledger_metadata.get(self._store, self._ledger)
        if stored.value.state is not LedgerPhase.OPEN:
            return stored
        marked = await ledger_metadata.swap(
            self._store,
            self._ledger,
            stored.revision,
            replace(stored.value, state=LedgerPhase.IN_RECOVERY),
        )
        if marked is None:
            raise Retriable(f"ledger {self._ledger} was changed at the same time: try again")
        return marked

    def _unfinished_fragment(self, metadata: LedgerMetadata) -> Fragment:
        """The one to recover: every entry of an earlier fragment is confirmed."""
        return metadata.fragments[-1]

    async def _fence(
        self, metadata: LedgerMetadata, ensemble: tuple[str, ...]
    ) -> dict[str, FencedLedger]:
        needed = metadata.enough_to_rule_out

        async def call(node: Node) -> FencedLedger:
            return await node.fence(self._ledger)

        def enough(answers: Answers[FencedLedger]) -> bool:
            return sum(isinstance(answer, FencedLedger) for answer in answers.values()) >= needed

        answers = await self._ask(ensemble, call, enough)
        found = {m: answer for m, answer in answers.items() if isinstance(answer, FencedLedger)}
        if len(found) < needed:
            raise self._too_few("be fenced", answers)
        return found

    def _known_end(self, metadata: LedgerMetadata, fenced: Sequence[FencedLedger]) -> int | None:
        """The highest entry that can exist, if the answers to the fences prove one.

        A fenced node permanently denies everything after its last entry.
        """
        denied = sum(found.certain for found in fenced)
        if self._rules_out(metadata, denied, len(fenced) - denied):
            return max(found.last_entry for found in fenced)
        return None

    # ---- the end ----

    async def _find_end(
        self,
        metadata: LedgerMetadata,
        ensemble: tuple[str, ...],
        lac: int,
        end: int | None,
        fenced: Mapping[str, FencedLedger],
    ) -> tuple[int, LedgerMetadata]:
        """The last entry, and the metadata with the ensembles that entries were rewritten to.

        Entries after ``end``, if it is known, are not looked for; entries in the answers of
        ``fenced`` nodes are not read again.
        """
        target = metadata.fragments[-1].ensemble
        lost: set[str] = set()
        entry = lac + 1
        at_once = _FIRST_BATCH
        while end is None or entry <= end:
            answers = self._shown(metadata, fenced, entry) if end is not None else {}
            answers = answers or await self._read(metadata, ensemble, entry, at_once)
            if not answers:
                break
            held = [answers[member] for member in target if member in answers]
            entries = _common(held, metadata.ack_quorum)
            if not entries:
                entries = max(answers.values(), key=len)
                before = target
                target = await self._rewrite(metadata, target, lost, entries)
                if target != before:
                    metadata = metadata.with_ensemble(entry, target)
            self.entries += entries if len(self.entries) == entry else []
            entry += len(entries)
            at_once = min(2 * at_once, _LARGEST_BATCH)
        return entry - 1, metadata

    def _shown(
        self, metadata: LedgerMetadata, fenced: Mapping[str, FencedLedger], first: int
    ) -> dict[str, list[Entry]]:
        """What ``_read`` would return, if the answers of enough fenced nodes contain it.

        A node collects its answer after the fence, so it is as good as a recovery read.
        """
        shown = {member: found.shows(first) for member, found in fenced.items()}
        if len(shown) < metadata.ack_quorum or None in shown.values():
            return {}
        return {member: entries for member, entries in shown.items() if entries}

    async def _read(
        self, metadata: LedgerMetadata, ensemble: tuple[str, ...], first: int, at_once: int
    ) -> dict[str, list[Entry]]:
        """Entries from ``first`` on by member; none if ``first`` certainly does not exist."""

        async def call(node: Node) -> list[Entry]:
            return await self._read_fenced(node, first, at_once)

        def enough(answers: Answers[list[Entry]]) -> bool:
            # One answer proves that it exists. A second one may show that it need not be rewritten.
            found = any(isinstance(answer, list) for answer in answers.values())
            heard = len(answers) >= metadata.ack_quorum
            return (found and heard) or self._ruled_out(metadata, answers)

        answers = await self._ask(ensemble, call, enough)
        found = {member: each for member, each in answers.items() if isinstance(each, list)}
        if found or self._ruled_out(metadata, answers):
            return found
        raise self._too_few(f"read entry {first}", answers)

    async def _read_fenced(self, node: Node, first: int, max_entries: int) -> list[Entry]:
        """A read after which the node takes no append of an earlier owner."""
        return await node.recovery_read(
            self._ledger, first, max_entries=max_entries, max_bytes=_BATCH_BYTES
        )

    def _ruled_out(self, metadata: LedgerMetadata, answers: Answers[list[Entry]]) -> bool:
        denied = sum(self._denies(answer) for answer in answers.values())
        unsure = sum(isinstance(answer, MaybeLost) for answer in answers.values())
        return self._rules_out(metadata, denied, unsure)

    def _denies(self, answer: object) -> bool:
        """Whether an answer says for certain that there is no such entry. An error is unknown."""
        return isinstance(answer, NotFound)

    def _rules_out(self, metadata: LedgerMetadata, denied: int, unsure: int) -> bool:
        """Whether no ack quorum can have had an entry, if fewer nodes than that lost data."""
        unheard = metadata.write_quorum - denied - unsure
        return unheard + min(unsure, metadata.ack_quorum - 1) < metadata.ack_quorum

    async def _rewrite(
        self,
        metadata: LedgerMetadata,
        target: tuple[str, ...],
        lost: set[str],
        entries: Sequence[Entry],
    ) -> tuple[str, ...]:
        """Write entries again until an ack quorum has them; returns the ensemble it belongs to."""
        while True:

            async def call(node: Node) -> bool:
                sent = [
                    node.append(self._ledger, e.entry, e.lac, e.payload, recovery=True)
                    for e in entries
                ]
                outcomes = await asyncio.gather(*sent, return_exceptions=True)
                for outcome in outcomes:
                    if isinstance(outcome, BaseException):
                        raise outcome
                return True

            members = [member for member in target if member not in lost]
            answers = await self._ask(members, call, lambda _: False)
            failed = {m for m in members if answers.get(m) is not True}
            lost |= failed
            spare = self._nodes.choose(len(lost & set(target)), exclude={*target, *lost})
            if len(members) - len(failed) >= metadata.ack_quorum:
                return target
            swapped = replacements(target, [m for m in target if m in lost], spare)
            if not swapped:
                raise self._too_few(f"store entry {entries[0].entry} again", answers)
            target = tuple(swapped.get(member, member) for member in target)

    # ---- metadata ----

    async def _close(self, stored: StoredMetadata, closed: LedgerMetadata) -> LedgerMetadata:
        done = await ledger_metadata.swap(self._store, self._ledger, stored.revision, closed)
        if done is not None:
            return closed
        current = await ledger_metadata.get(self._store, self._ledger)
        if current.value.last_entry is None:
            raise Retriable(f"ledger {self._ledger} is being recovered elsewhere: try again")
        if current.value.last_entry != closed.last_entry:
            raise Fenced(
                f"another owner closed ledger {self._ledger} at entry {current.value.last_entry}, "
                f"not at {closed.last_entry}"
            )
        return current.value

    async def _ask(
        self, members: Iterable[str], call: Call[_T], enough: Callable[[Answers[_T]], bool]
    ) -> Answers[_T]:
        return await ask_all(self._nodes, self._clock, self._call_timeout, members, call, enough)

    def _too_few(self, what: str, answers: Mapping[str, object]) -> Unavailable:
        why = "; ".join(f"{m}: {a}" for m, a in answers.items() if isinstance(a, SulinaError))
        return Unavailable(f"too few nodes of ledger {self._ledger} could {what} ({why})")


def _common(held: Sequence[Sequence[Entry]], copies: int) -> list[Entry]:
    """The first entries of which at least ``copies`` nodes have the same bytes."""
    longest = sorted(held, key=len, reverse=True)[:copies]
    if len(longest) < copies:
        return []
    first, *others = longest
    count = len(longest[-1])
    for place in range(count):
        if any(other[place].payload != first[place].payload for other in others):
            count = place
            break
    return list(first[:count])
