"""Settings of authentication."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sulina.errors import Refused

LEAST_SECRET: Final = 16
"""Minimum characters of a root token, and bytes of a key: shorter ones can be guessed."""


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """With these, clients need tokens."""

    root: str = field(repr=False)
    """The root token, which may do everything. The brokers of a cluster use it among themselves,
    so all must have the same one."""
    jwt_key: bytes | None = field(default=None, repr=False)
    """If set, JSON Web Tokens signed with it (HS256) are accepted."""

    def __post_init__(self) -> None:
        if len(self.root) < LEAST_SECRET or not self.root.isascii() or not self.root.isprintable():
            raise Refused(
                f"a root token needs at least {LEAST_SECRET} printable ASCII characters: "
                "delete the file, and a new token is generated"
            )
        if self.jwt_key is not None and len(self.jwt_key) < LEAST_SECRET:
            raise Refused(f"a key for JSON Web Tokens needs at least {LEAST_SECRET} bytes")
