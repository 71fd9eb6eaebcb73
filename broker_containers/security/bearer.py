"""The header by which clients of HTTP and gRPC show a token."""

from __future__ import annotations

from typing import Final

_SCHEME: Final = "bearer "


def bearer_token(header: str) -> str:
    """The token in ``Bearer ...``; empty if it is something else."""
    if header[: len(_SCHEME)].lower() != _SCHEME:
        return ""
    return header[len(_SCHEME) :].strip()
