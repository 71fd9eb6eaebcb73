"""The header in which HTTP and gRPC clients send a token."""

from __future__ import annotations

from typing import Final

_SCHEME: Final = "bearer "


def bearer_token(header: str) -> str:
    """The token in ``Bearer ...``; empty for other schemes."""
    if header[: len(_SCHEME)].lower() != _SCHEME:
        return ""
    return header[len(_SCHEME) :].strip()
