"""All targets, by name."""

from __future__ import annotations

from tests.fuzz import (
    broker_targets,
    http2_targets,
    identity_targets,
    storage_targets,
    typed_targets,
    wire_targets,
)

_PARTS = (
    wire_targets,
    http2_targets,
    identity_targets,
    broker_targets,
    storage_targets,
    typed_targets,
)

_ALL = [(module.__name__, target) for module in _PARTS for target in module.TARGETS]
TARGETS = {target.name: target for _, target in _ALL}
MODULES = {target.name: module for module, target in _ALL}
"""Where each target is defined."""
