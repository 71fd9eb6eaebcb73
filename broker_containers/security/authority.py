"""Turns tokens into rights, for every door: without a question to anybody.

Tokens, grants, roles and bindings are mirrored from the metadata store, so a change holds on every
broker as soon as its watch tells, milliseconds as a rule; while the store can't be reached, what
was known last counts. A time of expiry counts always.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from broker_containers.security.access import ANYBODY, ROOT, Access
from broker_containers.security.bound import Bound
from broker_containers.security.errors import Unauthenticated
from broker_containers.security.jwt import looks_like_jwt, read_jwt
from broker_containers.security.settings import AuthSettings
from sulina.errors import Refused, SulinaError, Unavailable
from sulina.metadata.keys import auth, record
from sulina.metadata.keys.auth import PrincipalRecord, TokenRecord
from sulina.metadata.keys.bindings import PrincipalType
from sulina.metadata.mirror import Mirror, Table
from sulina.metadata.store import KeyValue, MetadataStore
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_KEPT: Final = 4_096
_CAUGHT_UP_SECONDS: Final = 2.0
PREFIX: Final = "sulina_"
"""Our own tokens begin with it, so that one that got lost is recognised."""


def digest_of(token: str) -> str:
    """What is stored of a token; it is too long to be guessed, so no slower digest is needed."""
    return hashlib.sha256(token.encode(errors="backslashreplace")).hexdigest()


def id_of(token: str) -> str:
    """Which token it says it is; empty if it is none of ours."""
    if not token.startswith(PREFIX):
        return ""
    return token.removeprefix(PREFIX).partition("_")[0]


class Authority:
    """Use as ``async with``; entering waits for a first listing.

    Without settings it asks nobody for anything.
    """

    def __init__(self, store: MetadataStore, clock: Clock, settings: AuthSettings | None) -> None:
        self._settings = settings
        self._clock = clock
        self._principals = Table(auth.PRINCIPALS, _principal)
        self._tokens = Table(auth.TOKENS, _token)
        self._bound = Bound()
        tables: list[Table[Any]] = [self._principals, self._tokens, *self._bound.tables]
        self._mirror = Mirror(store, clock, auth.AUTH, tables)
        self._mirror.on_advance(self._advanced)
        self._kept: OrderedDict[str, Access] = OrderedDict()
        self._listed = False
        self._followers: list[Callable[[], None]] = []

    @property
    def on(self) -> bool:
        """Whether clients are asked."""
        return self._settings is not None

    async def __aenter__(self) -> Authority:
        if self.on:
            await self._mirror.__aenter__()
            self._listed = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self.on:
            await self._mirror.__aexit__(*exc)

    async def caught_up(self) -> None:
        """Wait until everything stored before the call counts here; for a moment only."""
        if self.on:
            with suppress(SulinaError, TimeoutError):
                await within(self._clock, _CAUGHT_UP_SECONDS, self._mirror.refresh())

    def follow(self, follower: Callable[[], None]) -> None:
        """Call ``follower`` whenever rights may have changed: who holds an ``Access`` asks anew."""
        self._followers.append(follower)

    def access(self, token: str) -> Access:
        """The rights that come with a token; waits for nothing. Raises ``Unauthenticated``."""
        settings = self._settings
        if settings is None:
            return ANYBODY
        found = self._kept.get(token)
        if found is None:
            found = self._resolve(token, settings)
            self._kept[token] = found
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        if found.until_us and self._clock.wall_us() >= found.until_us:
            raise Unauthenticated("the token has expired: get a new one")
        return found

    def _resolve(self, token: str, settings: AuthSettings) -> Access:
        if not token:
            raise Unauthenticated(
                "this broker asks for a token: `sulina security token create` makes one"
            )
        if hmac.compare_digest(digest_of(token), digest_of(settings.root)):
            return ROOT
        if not self._listed:
            raise Unavailable("the broker is starting: try again")
        if looks_like_jwt(token):
            if settings.jwt_key is None:
                raise Unauthenticated("JSON Web Tokens are not taken here: use one of Sulina's own")
            claims = read_jwt(token, settings.jwt_key, self._clock.wall_us())
            return self._access(claims.principal, claims.expires_us, claims.kind)
        stored = self._tokens.items.get(id_of(token))
        if stored is None or not hmac.compare_digest(digest_of(token), stored.digest):
            raise Unauthenticated("the token is not known here: it is wrong, or was revoked")
        return self._access(stored.principal, stored.expires_us)

    def _access(self, principal: str, until_us: int, kind: PrincipalType | None = None) -> Access:
        """Of a principal's own grants, and of its bindings.

        A JSON Web Token says of which ``kind`` its principal is; being bound is enough to be known
        then. Our own tokens end with their principal's record.
        """
        try:
            found = self._principals.items.get(auth.principal_rest(principal))
        except Refused:
            found = None  # a JSON Web Token may name anything
        bound = self._bound.grants(principal, kind)
        if found is None and (bound is None or kind is None):
            raise Unauthenticated(
                f"nobody called {principal!r} is known here: `sulina security grant` makes them"
            )
        own = () if found is None else found.grants
        return Access(principal, tuple(dict.fromkeys((*own, *(bound or ())))), until_us)

    def _advanced(self) -> None:
        self._kept.clear()
        for follower in self._followers:
            follower()


def _principal(item: KeyValue) -> PrincipalRecord:
    return record.decode(PrincipalRecord, item)


def _token(item: KeyValue) -> TokenRecord:
    return record.decode(TokenRecord, item)
