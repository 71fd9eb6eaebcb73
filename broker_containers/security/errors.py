"""What is refused because of who asks, where a door tells one from another."""

from __future__ import annotations

from sulina.errors import Refused


class Unauthenticated(Refused):
    """The token is missing, wrong, expired or revoked."""


class Denied(Refused):
    """The token is good, and what it is for is something else."""
