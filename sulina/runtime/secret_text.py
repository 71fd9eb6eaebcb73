"""Texts that nobody can guess, for tokens."""

from __future__ import annotations

import secrets


def secret_text(size: int) -> str:
    """``size`` random bytes as letters and digits of base 16."""
    return secrets.token_hex(size)
