"""Settings of authentication."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sulina.errors import Refused

LEAST_SECRET: Final = 16
"""Minimum characters of a root token, and bytes of a key: shorter ones can be guessed."""
GOOD_SECRET: Final = 32
"""Shorter ones are accepted with a warning."""
DAY_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True)
class JwtSettings:
    """Which JSON Web Tokens are accepted."""

    key: bytes = field(repr=False)
    """What they are signed with (HS256)."""
    issuer: str = ""
    """If set, the claim ``iss`` must be this."""
    audience: str = ""
    """If set, the claim ``aud`` must be or contain this."""
    max_seconds: float = DAY_SECONDS
    """Maximum lifetime: such a token can't be revoked by itself."""

    def __post_init__(self) -> None:
        if len(self.key) < LEAST_SECRET:
            raise Refused(
                f"a key for JSON Web Tokens needs at least {LEAST_SECRET} bytes, and this one has "
                f"{len(self.key)}, such as the sample key of Danube: create one with `openssl rand "
                "-hex 32`, and sign tokens with it (danube-admin security tokens create "
                "--secret-key)"
            )


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """Which tokens of an OpenID Connect provider are accepted."""

    issuer: str
    audience: str
    principal_claim: str = "sub"
    groups_claim: str = "groups"
    max_seconds: float = DAY_SECONDS
    """Maximum lifetime."""
    skew_seconds: float = 60.0
    """By how much the clocks of provider and broker may differ."""
    client_id: str = ""
    """The provider's client for people who sign in; the audience if it is empty."""
    scope: str = "openid"
    """What they ask the provider for."""


@dataclass(frozen=True, slots=True)
class SignInProvider:
    """Where a person signs in with a browser: an OpenID Connect provider and its addresses."""

    issuer: str
    client_id: str
    audience: str
    scope: str
    authorization_endpoint: str
    token_endpoint: str


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """With these, clients need tokens."""

    root: str = field(repr=False)
    """The root token, which may do everything. The brokers of a cluster use it among themselves,
    so all must have the same one."""
    jwt: JwtSettings | None = None
    """If set, JSON Web Tokens are accepted."""
    oidc: OidcSettings | None = None
    """If set, tokens of this provider are accepted."""
    root_file: Path | None = None
    """If set, the root token changes when this file does."""

    def __post_init__(self) -> None:
        check_root(self.root)


def check_root(root: str) -> str:
    """Return ``root`` if it can be a root token; otherwise raise ``Refused``."""
    if len(root) < LEAST_SECRET or not root.isascii() or not root.isprintable():
        raise Refused(
            f"a root token needs at least {LEAST_SECRET} printable ASCII characters: "
            "delete the file, and a new token is generated"
        )
    return root
