"""Errors of authentication and authorization, which doors report differently."""

from __future__ import annotations

from sulina.errors import Refused


class Unauthenticated(Refused):
    """The token is missing, wrong, expired or revoked."""


class Denied(Refused):
    """The token is valid but does not include the required right, or any right."""
