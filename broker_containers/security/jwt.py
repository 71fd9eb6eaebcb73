"""Verifies JSON Web Tokens signed with HS256, as Danube's tools issue them.

The token can't choose the algorithm. Tokens without an expiry time are refused, because they can't
be revoked.
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
from sulina.metadata.keys.bindings import PrincipalType

_MOST: Final = 8 << 10
_SECOND_US: Final = 1_000_000
_LATEST: Final = 1 << 40
"""Later times, in seconds since 1970, are invalid."""


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims that are used."""

    principal: str
    expires_us: int
    kind: PrincipalType = PrincipalType.SERVICE_ACCOUNT


def looks_like_jwt(token: str) -> bool:
    """Whether it has three parts separated by dots; Sulina's tokens have no dots."""
    return token.count(".") == 2


def read_jwt(token: str, key: bytes, now_us: int) -> Claims:
    """The claims of a valid token signed with ``key``. Raises ``Unauthenticated``."""
    if len(token) > _MOST or not token.isascii():
        raise _wrong("it is too long")
    signed, _, signature = token.rpartition(".")
    expected = hmac.new(key, signed.encode(), hashlib.sha256).digest()
    if not hmac.compare_digest(expected, _decoded(signature)):
        raise _wrong("it is signed with another key, or was changed")
    head, _, body = signed.partition(".")
    if _object(head).get("alg") != "HS256":
        raise _wrong("only HS256 is accepted")
    claims = _object(body)
    name = claims.get("principal_name") or claims.get("sub")
    if not isinstance(name, str):
        raise _wrong("it names no principal: principal_name or sub is missing")
    expires = _moment(claims, "exp")
    if expires is None:
        raise _wrong("it never expires: exp is missing")
    begins = _moment(claims, "nbf")
    if now_us >= expires:
        raise Unauthenticated("the token has expired: get a new one")
    if begins is not None and now_us < begins:
        raise _wrong("it is not valid yet")
    # Like Danube: a principal that is not declared a user is a service account.
    user = claims.get("principal_type") == PrincipalType.USER
    return Claims(name, expires, PrincipalType.USER if user else PrincipalType.SERVICE_ACCOUNT)


def _moment(claims: dict[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < _LATEST:
        raise _wrong(f"{name} is not a time")
    return int(value * _SECOND_US)


def _object(part: str) -> dict[str, Any]:
    try:
        value = json.loads(_decoded(part))
    except (ValueError, RecursionError):
        raise _wrong("it can't be read") from None
    if not isinstance(value, dict):
        raise _wrong("it can't be read")
    return value


def _decoded(part: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        raise _wrong("it can't be read") from None


def _wrong(why: str) -> Unauthenticated:
    return Unauthenticated(f"invalid JSON Web Token: {why}")
