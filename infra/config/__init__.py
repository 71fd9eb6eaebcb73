"""The stack's settings: parsed, checked, with defaults."""

from __future__ import annotations
