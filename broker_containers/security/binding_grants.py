"""The grants that principals have through bindings to roles, in memory.

Grants are computed when a principal is looked up, so changing a binding stays cheap however many
bindings there are.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker_containers.security.permissions import grants_of
from sulina.metadata.keys import bindings, roles
from sulina.metadata.keys.auth import Grant
from sulina.metadata.keys.bindings import Binding, PrincipalType
from sulina.metadata.keys.path import part
from sulina.metadata.prefix_cache import CachedTable


class BindingGrants:
    """Two tables for the authority's prefix_cache: pass ``tables`` to it."""

    def __init__(self) -> None:
        self._roles = CachedTable(roles.ROLES, roles.decode)
        self._bindings = CachedTable(bindings.BINDINGS, bindings.decode)
        self._bindings.on_change(self._changed)
        self._by_name: dict[str, dict[str, Binding]] = {}
        """Principal -> its bindings, by the rest of their keys."""
        self._names: dict[str, str] = {}
        """The rest of a binding's key -> its principal."""
        self.tables = (self._roles, self._bindings)

    def grants(self, principal: str, kind: PrincipalType | None) -> tuple[Grant, ...] | None:
        """The grants of a principal's bindings; None if it has no bindings.

        With ``kind``, only bindings for principals of that type are used; without, those for groups
        are not.
        """
        found = list(self._of(principal, kind))
        return tuple(grant for each in found for grant in self._expanded(each)) if found else None

    def _of(self, principal: str, kind: PrincipalType | None) -> Iterator[Binding]:
        for binding in self._by_name.get(principal, {}).values():
            found = binding.record.type
            if found is kind or (kind is None and found is not PrincipalType.GROUP):
                yield binding

    def _expanded(self, binding: Binding) -> Iterator[Grant]:
        for name in binding.record.roles:
            role = self._roles.items.get(part(name))
            if role is not None:
                yield from grants_of(role.permissions, binding.reach)

    def _changed(self, rest: str, binding: Binding | None) -> None:
        name = self._names.pop(rest, None)
        if name is not None:
            left = self._by_name[name]
            del left[rest]
            if not left:
                del self._by_name[name]
        if binding is not None:
            self._names[rest] = binding.record.principal
            self._by_name.setdefault(binding.record.principal, {})[rest] = binding
