"""How a broker asks clients who they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sulina.errors import Refused

LEAST_SECRET: Final = 16
"""Characters of a root token, bytes of a key: fewer can be guessed."""


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """With these, whoever has no token is refused."""

    root: str = field(repr=False)
    """The token that may do everything. Brokers of a cluster show it to each other, so all of them
    have the same."""
    jwt_key: bytes | None = field(default=None, repr=False)
    """With it, JSON Web Tokens are taken that were signed with it (HS256), by whoever it was."""

    def __post_init__(self) -> None:
        if len(self.root) < LEAST_SECRET or not self.root.isascii() or not self.root.isprintable():
            raise Refused(
                f"a root token has at least {LEAST_SECRET} plain characters: leave the file out "
                "and a good one is made"
            )
        if self.jwt_key is not None and len(self.jwt_key) < LEAST_SECRET:
            raise Refused(f"a key for JSON Web Tokens has at least {LEAST_SECRET} bytes")
