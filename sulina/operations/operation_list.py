"""Every declared operation. Imports all groups, which takes a while: for brokers, not clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sulina.operations.client import AdminClient, LazyGroup
from sulina.operations.declaration import Declaration, OperationGroup

GROUPS: Final[Mapping[str, type[OperationGroup]]] = {
    name: group.load() for name, group in vars(AdminClient).items() if isinstance(group, LazyGroup)
}
"""The groups, by their names in the client."""
OPERATIONS: Final[Mapping[str, Declaration]] = {
    each.name: each for group in GROUPS.values() for each in group.operations
}
"""The operations, by name."""
