"""Verifies JSON Web Tokens signed with HS256, as Danube's tools issue them.

The token can't choose the algorithm. Tokens that do not expire, or only after a long time, are
refused, because they can't be revoked.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import Any, Final

from broker_containers.security.errors import Unauthenticated
from broker_containers.security.settings import JwtSettings
from sulina.metadata.keys.bindings import PrincipalType

MAX_TOKEN: Final = 8 << 10
_SECOND_US: Final = 1_000_000
_LATEST: Final = 1 << 40
"""Later times, in seconds since 1970, are invalid."""


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims that are used."""

    principal: str
    expires_us: int
    kind: PrincipalType = PrincipalType.SERVICE_ACCOUNT
    groups: tuple[str, ...] = ()


def looks_like_jwt(token: str) -> bool:
    """Whether it has three parts separated by dots; Sulina's tokens have no dots."""
    return token.count(".") == 2


def is_hs256(token: str) -> bool:
    """Whether a token claims to be signed as ``read_jwt`` expects. Raises ``Unauthenticated``."""
    if len(token) > MAX_TOKEN or not token.isascii():
        raise wrong_token("it is too long")
    return json_part(token.partition(".")[0]).get("alg") == "HS256"


def read_jwt(token: str, settings: JwtSettings, now_us: int) -> Claims:
    """The claims of a valid token. Raises ``Unauthenticated``."""
    if len(token) > MAX_TOKEN or not token.isascii():
        raise wrong_token("it is too long")
    signed, _, signature = token.rpartition(".")
    expected = hmac.new(settings.key, signed.encode(), hashlib.sha256).digest()
    if not hmac.compare_digest(expected, base64_decoded(signature)):
        raise wrong_token("it is signed with another key, or was changed")
    head, _, body = signed.partition(".")
    if json_part(head).get("alg") != "HS256":
        raise wrong_token("only HS256 is accepted")
    claims = json_part(body)
    name = claims.get("principal_name") or claims.get("sub")
    if not isinstance(name, str):
        raise wrong_token("it names no principal: principal_name or sub is missing")
    expires = check_times(claims, now_us, settings.max_seconds)
    check_issuer(claims, settings.issuer, settings.audience)
    # Like Danube: a principal that is not declared a user is a service account.
    user = claims.get("principal_type") == PrincipalType.USER
    return Claims(name, expires, PrincipalType.USER if user else PrincipalType.SERVICE_ACCOUNT)


def check_times(
    claims: dict[str, Any], now_us: int, max_seconds: float, skew_seconds: float = 0.0
) -> int:
    """When a token with these claims expires. Raises ``Unauthenticated`` if it is not valid now.

    ``skew_seconds`` is by how much the clock of its issuer may differ.
    """
    skew_us = int(skew_seconds * _SECOND_US)
    expires = _moment(claims, "exp")
    if expires is None:
        raise wrong_token("it never expires: exp is missing")
    begins, issued = _moment(claims, "nbf"), _moment(claims, "iat")
    if now_us >= expires + skew_us:
        raise Unauthenticated("the token has expired: get a new one")
    if max(begins or 0, issued or 0) > now_us + skew_us:
        raise wrong_token("it is not valid yet")
    if expires - min(now_us, issued or now_us) > max_seconds * _SECOND_US + skew_us:
        raise wrong_token(
            f"it is valid for more than {max_seconds / 3600:g} hours: get one that expires "
            "earlier (danube-admin: --ttl), or change --auth-jwt-max-age"
        )
    return expires + skew_us


def check_issuer(claims: dict[str, Any], issuer: str, audience: str) -> None:
    """Raise ``Unauthenticated`` for claims of another issuer, or for another audience, if given."""
    if issuer and claims.get("iss") != issuer:
        raise wrong_token("its issuer, iss, is not the one that is accepted here")
    meant = claims.get("aud")
    if audience and audience not in (meant if isinstance(meant, list) else [meant]):
        raise wrong_token("it is meant for another audience: aud does not name this one")


def _moment(claims: dict[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < _LATEST:
        raise wrong_token(f"{name} is not a time")
    return int(value * _SECOND_US)


def json_part(part: str) -> dict[str, Any]:
    """The JSON object in a part of a token. Raises ``Unauthenticated``."""
    try:
        value = json.loads(base64_decoded(part))
    except (ValueError, RecursionError):
        raise wrong_token("it can't be read") from None
    if not isinstance(value, dict):
        raise wrong_token("it can't be read")
    return value


def base64_decoded(part: str) -> bytes:
    """Raises ``Unauthenticated``."""
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        raise wrong_token("it can't be read") from None


def wrong_token(why: str) -> Unauthenticated:
    """The error for an invalid token."""
    return Unauthenticated(f"invalid JSON Web Token: {why}")
