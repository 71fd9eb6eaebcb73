"""All targets, by name."""

from __future__ import annotations

from tests.fuzz import broker_targets, storage_targets, wire_targets

_ALL = [
    (module.__name__, target)
    for module in (wire_targets, broker_targets, storage_targets)
    for target in module.TARGETS
]
TARGETS = {target.name: target for _, target in _ALL}
MODULES = {target.name: module for module, target in _ALL}
"""Where each target is defined."""
