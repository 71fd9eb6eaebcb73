"""Environments of their own for programs that tests run beside ours; see there."""

from __future__ import annotations

from localstack.environments import environment as environment
