"""The storage nodes that a ledger client can use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from storage_grpc.node import Node


class Nodes(Protocol):
    """Storage nodes by member name: the node's name and its incarnation."""

    def get(self, member: str) -> Node | None:
        """The node with this name and incarnation, healthy or not; None if there is none."""
        ...

    def choose(self, count: int, exclude: Collection[str] = ()) -> list[Node]:
        """At most ``count`` healthy nodes, the least loaded first, none of ``exclude``."""
        ...

    def failed(self, member: str) -> None:
        """Report a failure of a node: it is not chosen for a while."""
        ...


def replacements(
    ensemble: Iterable[str], lost: Sequence[str], spare: Iterable[Node]
) -> dict[str, str]:
    """Which of the ``spare`` nodes replaces which lost member.

    A node that came back as another member replaces only its former self: with one machine twice
    in an ensemble, losing that machine would lose two copies.
    """
    members = {_machine(member): member for member in ensemble}
    names = [node.id for node in spare]
    swapped = {
        members[_machine(name)]: name for name in names if members.get(_machine(name)) in lost
    }
    others = [name for name in names if _machine(name) not in members]
    rest = [member for member in lost if member not in swapped]
    return swapped | dict(zip(rest, others, strict=False))


def _machine(member: str) -> str:
    """The node's name without its incarnation."""
    return member.rpartition("@")[0] or member
