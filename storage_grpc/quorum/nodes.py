"""Which storage nodes there are, for those who need some."""

from __future__ import annotations

from collections.abc import Collection
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
