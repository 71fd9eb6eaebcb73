"""Resolves tokens to rights, for every door, from memory.

Tokens, grants, roles and bindings are mirrored from the metadata store, so a change takes effect on
every broker as soon as its watch reports it, usually within milliseconds. While the store can't be
reached, the last known state applies. Expiry times always apply.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from broker_containers.security.access import ANYONE, RESERVED_NAMES, ROOT, Access
from broker_containers.security.binding_grants import BindingGrants
from broker_containers.security.certificate import ClientCertificate
from broker_containers.security.errors import Denied, Unauthenticated
from broker_containers.security.jwt import Claims, is_hs256, looks_like_jwt, read_jwt
from broker_containers.security.root_token import RootToken
from broker_containers.security.settings import AuthSettings, SignInProvider
from sulina.errors import Refused, SignInNeeded, SulinaError, Unavailable
from sulina.metadata.keys import auth, record
from sulina.metadata.keys.auth import DenyRecord, Grant, PrincipalRecord, TokenRecord
from sulina.metadata.keys.bindings import PrincipalType
from sulina.metadata.prefix_cache import CachedTable, PrefixCache
from sulina.metadata.store import KeyValue, MetadataStore
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

if TYPE_CHECKING:
    from broker_containers.security.oidc import OidcProvider

_KEPT: Final = 4_096
_CAUGHT_UP_SECONDS: Final = 2.0
PREFIX: Final = "sulina_"
"""Prefix of Sulina's tokens, so that leaked ones can be recognised."""


def digest_of(token: str) -> str:
    """What is stored of a token. Tokens are too long to be guessed, so a fast digest is enough."""
    return hashlib.sha256(token.encode(errors="backslashreplace")).hexdigest()


def id_of(token: str) -> str:
    """The id in a token's text; empty if it is not one of Sulina's tokens."""
    if not token.startswith(PREFIX):
        return ""
    return token.removeprefix(PREFIX).partition("_")[0]


class Authority:
    """Use as ``async with``; entering waits until the records are loaded.

    Without settings, clients need no tokens and may do everything.
    """

    def __init__(self, store: MetadataStore, clock: Clock, settings: AuthSettings | None) -> None:
        self._settings = settings
        self._clock = clock
        self.root: RootToken | None = None
        self._oidc: OidcProvider | None = None
        if settings is not None:
            self.root = RootToken(settings.root, clock, settings.root_file)
        if settings is not None and settings.oidc is not None:
            from broker_containers.security.oidc import OidcProvider  # takes a while to load

            self._oidc = OidcProvider(settings.oidc, clock, self._advanced)
        self._rotating: asyncio.Task[None] | None = None
        self._principals = CachedTable(auth.PRINCIPALS, _principal)
        self._denials = CachedTable(auth.DENIALS, _denial)
        self._tokens = CachedTable(auth.TOKENS, _token)
        self._bound = BindingGrants()
        own: list[CachedTable[Any]] = [self._principals, self._denials, self._tokens]
        self._prefix_cache = PrefixCache(store, clock, auth.AUTH, [*own, *self._bound.tables])
        self._prefix_cache.on_advance(self._advanced)
        self._kept: OrderedDict[str | ClientCertificate, Access] = OrderedDict()
        self._listed = False
        self._followers: list[Callable[[], None]] = []

    @property
    def on(self) -> bool:
        """Whether clients need tokens."""
        return self._settings is not None

    async def __aenter__(self) -> Authority:
        if self.on:
            await self._prefix_cache.__aenter__()
            self._listed = True
        if self._oidc is not None:
            await self._oidc.__aenter__()
        if self.root is not None and self._settings is not None and self._settings.root_file:
            self._rotating = asyncio.create_task(self.root.follow(self._advanced))
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._rotating is not None:
            self._rotating.cancel()
            await asyncio.wait([self._rotating])
        if self._oidc is not None:
            await self._oidc.__aexit__(*exc)
        if self.on:
            await self._prefix_cache.__aexit__(*exc)

    def own_token(self) -> str:
        """What this broker presents to others."""
        return "" if self.root is None else self.root.presented()

    async def caught_up(self) -> None:
        """Wait until changes stored before the call take effect here, or two seconds."""
        if self.on:
            with suppress(SulinaError, TimeoutError):
                await within(self._clock, _CAUGHT_UP_SECONDS, self._prefix_cache.refresh())

    @property
    def provider(self) -> SignInProvider | None:
        """Where people can sign in with a browser."""
        return None if self._oidc is None else self._oidc.for_browsers

    def with_sign_in(self, error: Unauthenticated) -> Refused:
        """The error with the provider that issues tokens, if there is one."""
        oidc = None if self._settings is None else self._settings.oidc
        if oidc is None:
            return error
        client = oidc.client_id or oidc.audience
        return SignInNeeded(
            f"{error}, or sign in with `sulina login`",
            oidc.issuer,
            client,
            oidc.audience,
            oidc.scope,
        )

    def follow(self, follower: Callable[[], None]) -> None:
        """Call ``follower`` whenever rights may have changed: holders of an ``Access`` renew it."""
        self._followers.append(follower)

    def identity(
        self,
        token: str,
        certificate: ClientCertificate | None,
        vouched: ClientCertificate | None,
    ) -> tuple[str, ClientCertificate | None]:
        """The token or certificate that counts: ``vouched``, which another broker has checked, if
        ``token`` is the brokers' own; else what the caller itself presents."""
        if vouched is not None and self.root is not None and self.root.accepts(token):
            return "", vouched
        return token, certificate

    def access(self, token: str, certificate: ClientCertificate | None = None) -> Access:
        """The rights of a token, or without one of a verified certificate; never waits.

        Raises ``Unauthenticated``, and ``Denied`` for an identity from outside without any rights.
        """
        settings = self._settings
        if settings is None:
            return ANYONE
        key = token or certificate or ""
        found = self._kept.get(key)
        if found is None:
            found = self._resolve(token, certificate, settings)
            self._kept[key] = found
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        if found.until_us and self._clock.wall_us() >= found.until_us:
            what = "token" if token else "certificate"
            raise Unauthenticated(f"the {what} has expired: get a new one")
        return found

    def _resolve(
        self, token: str, certificate: ClientCertificate | None, settings: AuthSettings
    ) -> Access:
        if not token and certificate is not None:
            kind = PrincipalType.SERVICE_ACCOUNT
            return self._access(certificate.principal, certificate.until_us, kind)
        if not token:
            raise Unauthenticated(
                "this broker requires a token: create one with `sulina security token create`"
            )
        if self.root is not None and self.root.accepts(token):
            return ROOT
        if not self._listed:
            raise Unavailable("the broker is starting: try again")
        if looks_like_jwt(token):
            claims = self._claims(token, settings)
            return self._access(claims.principal, claims.expires_us, claims.kind, claims.groups)
        stored = self._tokens.items.get(id_of(token))
        if stored is None or not hmac.compare_digest(digest_of(token), stored.digest):
            raise Unauthenticated("unknown token: it is wrong, or was revoked")
        return self._access(stored.principal, stored.expires_us)

    def _claims(self, token: str, settings: AuthSettings) -> Claims:
        if self._oidc is not None and (settings.jwt is None or not is_hs256(token)):
            return self._oidc.read(token)
        if settings.jwt is None:
            raise Unauthenticated("JSON Web Tokens are not accepted here: use a Sulina token")
        return read_jwt(token, settings.jwt, self._clock.wall_us())

    def _access(
        self,
        principal: str,
        until_us: int,
        kind: PrincipalType | None = None,
        groups: Sequence[str] = (),
    ) -> Access:
        """The grants of a principal and of its bindings, and its deny rules.

        A JSON Web Token and a certificate have the ``kind`` of their principal, which may exist in
        bindings only: in its own, or in those of its ``groups``. If it has neither, it is known
        and has no rights: ``Denied``. Sulina's tokens are valid only as long as their principal's
        record exists.
        """
        if kind is not None and principal in RESERVED_NAMES:
            raise Unauthenticated(f"the name {principal!r} is reserved: use another one")
        found = self._principals.items.get(_rest(principal))
        bound = self._bound.grants(principal, kind)
        for group in groups:
            of_group = self._bound.grants(group, PrincipalType.GROUP)
            if of_group is not None:
                bound = (*(bound or ()), *of_group)
        if found is None and kind is None:
            raise Unauthenticated(
                f"unknown principal {principal!r}: create it with `sulina security grant`"
            )
        if found is None and bound is None:
            raise Denied(
                f"unknown principal {principal!r}: the token is valid, but gives no rights here; "
                "`sulina security grant` or `sulina security binding create` gives it some"
            )
        own = () if found is None else found.grants
        grants = tuple(dict.fromkeys((*own, *(bound or ()))))
        return Access(principal, grants, until_us, self._denied(principal, *groups))

    def _denied(self, *names: str) -> tuple[Grant, ...]:
        """The deny rules for these names."""
        found = (self._denials.items.get(_rest(name)) for name in names)
        return tuple(rule for each in found if each is not None for rule in each.rules)

    def _advanced(self) -> None:
        self._kept.clear()
        for follower in self._followers:
            follower()


def _rest(name: str) -> str:
    """The key of a principal after the prefix; empty for names that principals can't have."""
    try:
        return auth.principal_rest(name)
    except Refused:
        return ""  # a JSON Web Token may name anything


def _principal(item: KeyValue) -> PrincipalRecord:
    return record.decode(PrincipalRecord, item)


def _denial(item: KeyValue) -> DenyRecord:
    return record.decode(DenyRecord, item)


def _token(item: KeyValue) -> TokenRecord:
    return record.decode(TokenRecord, item)
