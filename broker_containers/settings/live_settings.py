"""The settings in force on a broker, as one value."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from broker_containers.broker.settings import BrokerSettings
from broker_containers.cluster.settings import ClusterSettings


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """The settings in force on a broker."""

    broker: BrokerSettings = field(default_factory=BrokerSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    log_level: str = "warning"

    def at(self, path: tuple[str, ...]) -> Any:
        """The value at ``path``, such as ``("broker", "ledger", "roll_bytes")``."""
        found: Any = self
        for name in path:
            found = getattr(found, name)
        return found

    def with_all(self, values: dict[tuple[str, ...], Any]) -> LiveSettings:
        """A copy with other values at some paths. Raises ``Refused`` for contradictions."""
        live: LiveSettings = _replaced(self, values)
        return live


def _replaced(base: Any, values: dict[tuple[str, ...], Any]) -> Any:
    """All values of one object at once: one by one they might contradict each other."""
    direct = {path[0]: value for path, value in values.items() if len(path) == 1}
    for name in {path[0] for path in values if len(path) > 1}:
        beneath = {path[1:]: value for path, value in values.items() if path[0] == name}
        direct[name] = _replaced(getattr(base, name), beneath)
    return dataclasses.replace(base, **direct) if direct else base
