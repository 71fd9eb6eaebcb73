"""What principals may do by their bindings, kept in memory: two tables of the authority's mirror.

Nothing is worked out but for who is asked about, so a change of one binding costs little however
many there are.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker_containers.security.permissions import grants_of
from sulina.metadata.keys import bindings, roles
from sulina.metadata.keys.auth import Grant
from sulina.metadata.keys.bindings import Binding, PrincipalType
from sulina.metadata.keys.path import part
from sulina.metadata.mirror import Table


class Bound:
    """Give ``tables`` to a mirror that covers them."""

    def __init__(self) -> None:
        self._roles = Table(roles.ROLES, roles.decode)
        self._bindings = Table(bindings.BINDINGS, bindings.decode)
        self._bindings.on_change(self._changed)
        self._by_name: dict[str, dict[str, Binding]] = {}
        """A principal's bindings, by the rest of their keys."""
        self._names: dict[str, str] = {}
        """Whose each binding is, by the rest of its key."""
        self.tables = (self._roles, self._bindings)

    def grants(self, principal: str, kind: PrincipalType | None) -> tuple[Grant, ...] | None:
        """What a principal's bindings allow; None if it has none.

        With ``kind`` only bindings of principals of that type count.
        """
        found = list(self._of(principal, kind))
        return tuple(grant for each in found for grant in self._expanded(each)) if found else None

    def _of(self, principal: str, kind: PrincipalType | None) -> Iterator[Binding]:
        for binding in self._by_name.get(principal, {}).values():
            if kind is None or binding.record.type is kind:
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
