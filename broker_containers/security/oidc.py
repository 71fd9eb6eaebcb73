"""Accepts tokens of an OpenID Connect provider.

The provider's keys are fetched ahead of time and kept, so that checking a token never waits. A
token that names an unknown key makes the keys be fetched again, at a bounded rate: providers
rotate their keys. While the provider can't be reached, the last known keys apply.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from broker_containers.security.errors import Unauthenticated
from broker_containers.security.jwk import ALGORITHMS, VerifyKey, read_keys
from broker_containers.security.jwt import (
    MAX_TOKEN,
    Claims,
    base64_decoded,
    check_issuer,
    check_times,
    json_part,
    wrong_token,
)
from broker_containers.security.settings import OidcSettings, SignInProvider
from sulina.errors import Refused, SulinaError, Unavailable
from sulina.metadata.keys.bindings import PrincipalType
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_REFRESH_SECONDS: Final = 300.0
_RETRY_SECONDS: Final = 30.0
_LEAST_SECONDS: Final = 10.0
"""Between two fetches, whatever tokens ask for."""
_FETCH_SECONDS: Final = 10.0
_MOST_BYTES: Final = 1 << 20
_MOST_GROUPS: Final = 200
_MOST_TRIED: Final = 4
"""Keys that are tried for a token that names none."""
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


def read_oidc_token(
    token: str, keys: Mapping[str, VerifyKey], settings: OidcSettings, now_us: int
) -> Claims:
    """The claims of a token that is signed with one of ``keys``.

    Raises ``Unauthenticated``, and ``UnknownKey`` if the provider may have another key by now.
    """
    if len(token) > MAX_TOKEN or not token.isascii():
        raise wrong_token("it is too long")
    signed, _, signature = token.rpartition(".")
    head, _, body = signed.partition(".")
    header = json_part(head)
    algorithm = header.get("alg")
    if algorithm not in ALGORITHMS:
        raise wrong_token(f"only {', '.join(ALGORITHMS)} are accepted")
    if "crit" in header:
        raise wrong_token("it has critical extensions")
    given = str(algorithm), signed.encode(), base64_decoded(signature)
    wanted = header.get("kid")
    if not isinstance(wanted, str | None):
        raise wrong_token("it can't be read")
    named = list(keys.values()) if wanted is None else [keys[wanted]] if wanted in keys else []
    if not any(key.verifies(*given) for key in named[:_MOST_TRIED]):
        if wanted in keys:
            raise wrong_token("it is signed with another key, or was changed")
        raise UnknownKey("invalid token: it is not signed with one of the provider's keys")
    claims = json_part(body)
    check_issuer(claims, settings.issuer, settings.audience)
    expires = check_times(claims, now_us, settings.max_seconds, settings.skew_seconds)
    name = claims.get(settings.principal_claim)
    if not isinstance(name, str) or not name:
        raise wrong_token(f"it names no principal: {settings.principal_claim} is missing")
    found = claims.get(settings.groups_claim, [])
    listed = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    groups = tuple(each for each in listed[:_MOST_GROUPS] if isinstance(each, str))
    return Claims(name, expires, PrincipalType.USER, groups)


class UnknownKey(Unauthenticated):
    """The token is not signed with a key that the provider is known to have."""


class OidcProvider:
    """The keys of a provider. Use as ``async with``; entering tries to fetch them."""

    def __init__(self, settings: OidcSettings, clock: Clock, changed: Callable[[], None]) -> None:
        """``changed`` is called when there are other keys: rights must be looked up again."""
        self.settings = settings
        self._clock = clock
        self._changed = changed
        self._keys: dict[str, VerifyKey] = {}
        self._fetched = float("-inf")
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.failing = ""
        """Why the keys could not be fetched the last time; empty if they could."""
        self._authorization = self._token = ""

    async def __aenter__(self) -> OidcProvider:
        _check_url(self.settings.issuer)
        await self._fetch()
        self._task = asyncio.create_task(self._run(), name="OpenID Connect keys")
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    @property
    def for_browsers(self) -> SignInProvider | None:
        """How a browser signs in; None if the provider has not said so, or not yet."""
        settings = self.settings
        if not self._authorization or not self._token:
            return None
        return SignInProvider(
            settings.issuer,
            settings.client_id or settings.audience,
            settings.audience,
            settings.scope,
            self._authorization,
            self._token,
        )

    def read(self, token: str) -> Claims:
        """The claims of a valid token; never waits.

        Raises ``Unauthenticated``, and ``Unavailable`` while keys are being fetched.
        """
        try:
            return read_oidc_token(token, self._keys, self.settings, self._clock.wall_us())
        except UnknownKey:
            if self._keys and self._clock.now() < self._fetched + _LEAST_SECONDS:
                raise
            self._wanted.set()
            why = f" ({self.failing})" if self.failing else ""
            raise Unavailable(
                f"the keys of {self.settings.issuer} are being fetched{why}: try again"
            ) from None

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                pause = _RETRY_SECONDS if self.failing else _REFRESH_SECONDS
                await within(self._clock, pause, self._wanted.wait())
            self._wanted.clear()
            await self._fetch()
            await self._clock.sleep(_LEAST_SECONDS)

    async def _fetch(self) -> None:
        try:
            found = await within(self._clock, _FETCH_SECONDS, self._fetch_keys())
        except (SulinaError, TimeoutError, OSError, ValueError) as error:
            self._failed(str(error) or "no answer in time")
        except Exception as error:  # whatever the HTTP library raises
            self._failed(f"{type(error).__name__}: {error}")
        else:
            if self.failing:
                _log.warning("the keys of %s were fetched", self.settings.issuer)
            self.failing = ""
            if found != self._keys:
                self._keys = found
                self._changed()
        self._fetched = self._clock.now()

    def _failed(self, why: str) -> None:
        if not self.failing:
            _log.warning(
                "fetching the keys of %s failed; will retry: %s", self.settings.issuer, why
            )
        self.failing = why

    async def _fetch_keys(self) -> dict[str, VerifyKey]:
        issuer = self.settings.issuer
        about = await _fetch_json(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if about.get("issuer") != issuer:
            raise Refused(f"the provider calls itself {about.get('issuer')!r}, not {issuer!r}")
        place = about.get("jwks_uri")
        if not isinstance(place, str):
            raise Refused("the provider does not say where its keys are")
        _check_url(place)
        self._authorization = _browser_url(about.get("authorization_endpoint"))
        self._token = _browser_url(about.get("token_endpoint"))
        return read_keys(await _fetch_json(place))


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL):
        return
    raise Refused(f"{url} is not an https URL: an OpenID Connect provider needs TLS")


def _browser_url(url: object) -> str:
    """A URL that the console may name in its content security policy; empty if it may not."""
    if not isinstance(url, str) or any(each in url for each in " ;,'\"\r\n") or not url.isascii():
        return ""
    _check_url(url)
    return url


async def _fetch_json(url: str) -> dict[str, Any]:
    import aiohttp  # when it is needed: it takes a while to load

    async with (
        aiohttp.ClientSession() as session,
        session.get(url, allow_redirects=False) as answer,
    ):
        if answer.status != 200:
            raise Refused(f"{url} answered {answer.status}")
        body = await answer.content.read(_MOST_BYTES)
        while len(body) < _MOST_BYTES and (more := await answer.content.read(_MOST_BYTES)):
            body += more
    value = json.loads(body)
    if not isinstance(value, dict):
        raise Refused(f"{url} did not answer with a JSON object")
    return value
