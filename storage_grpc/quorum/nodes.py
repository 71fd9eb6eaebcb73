"""Which storage nodes there are, for those who need some."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from storage_grpc.node import Node


class Nodes(Protocol):
    """The storage nodes that can be reached. Members are named by node and incarnation."""

    def get(self, member: str) -> Node | None:
        """The node, if it is known under this very incarnation."""
        ...

    def choose(self, count: int, exclude: Collection[str] = ()) -> list[Node]:
        """Up to ``count`` nodes that seem healthy, the best first, none of ``exclude``."""
        ...

    def failed(self, member: str) -> None:
        """A node did not do what it should: prefer others for a while."""
        ...


def replacements(
    ensemble: Iterable[str], lost: Sequence[str], spare: Iterable[Node]
) -> dict[str, str]:
    """Which of ``spare`` takes the place of which lost member.

    A node that came back as another member takes its own place or none: with one machine twice in
    an ensemble, the loss of that machine would count as two.
    """
    members = {_machine(member): member for member in ensemble}
    names = [node.id for node in spare]
    swapped = {
        members[_machine(name)]: name for name in names if members.get(_machine(name)) in lost
    }
    others = [name for name in names if _machine(name) not in members]
    free = [member for member in lost if member not in swapped]
    return swapped | dict(zip(free, others, strict=False))


def _machine(member: str) -> str:
    """The node's name, whichever its incarnation."""
    return member.rpartition("@")[0] or member
