"""Signing in with OpenID Connect on a device without a browser (RFC 8628), and what is kept of it.

A sign-in is kept in a file that only the user can read, one for each URL of brokers. Its token is
renewed with the provider's refresh token, shortly before it expires.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from sulina.errors import Refused, SulinaError, Unavailable
from sulina.runtime.real_clock import RealClock
from sulina.runtime.seam import Clock
from sulina.runtime.user_files import locked, login_file, write_private
from sulina.runtime.web_calls import call_web, check_web_address

WebCall = Callable[[str, Mapping[str, str] | None], tuple[int, dict[str, Any]]]
"""As ``call_web``: blocks, so it runs in a thread."""
_DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
_INTERVAL_SECONDS: Final = 5.0
_SLOWER_SECONDS: Final = 5.0
_LONGEST_INTERVAL: Final = 60.0
_LONGEST_WAIT: Final = 1800.0
_EARLY_SECONDS: Final = 60.0
"""How long before it expires a token is renewed."""
_OFFLINE: Final = "offline_access"


@dataclass(frozen=True, slots=True)
class SignInOffer:
    """Where people get tokens for a cluster."""

    issuer: str
    client_id: str
    audience: str
    scope: str = "openid"


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """What a person needs to sign in, elsewhere."""

    address: str
    """Where to open it."""
    code: str
    whole_address: str
    """The same with the code; empty if the provider has none."""
    seconds: float
    """How long it is valid."""
    interval: float
    secret: str
    """What the device presents."""


@dataclass(frozen=True, slots=True)
class Login:
    """A sign-in as it is stored."""

    url: str
    offer: SignInOffer
    token: str
    refresh_token: str = ""

    @property
    def expires(self) -> float:
        """Seconds since 1970."""
        found = _claims(self.token).get("exp")
        return float(found) if isinstance(found, int | float) else 0.0


class DeviceSignIn:
    """The flow of one sign-in."""

    def __init__(self, offer: SignInOffer, clock: Clock, web: WebCall = call_web) -> None:
        self._offer = offer
        self._clock = clock
        self._web = web
        self._provider: dict[str, Any] = {}

    async def begin(self) -> DeviceCode:
        """Ask the provider for a code. Raises ``Refused`` and ``Unavailable``."""
        self._provider = await asyncio.to_thread(read_provider, self._offer.issuer, self._web)
        where = _endpoint(self._provider, "device_authorization_endpoint")
        supported = self._provider.get("scopes_supported")
        offline = [_OFFLINE] if isinstance(supported, list) and _OFFLINE in supported else []
        scope = " ".join(dict.fromkeys([*self._offer.scope.split(), *offline]))
        form = {"client_id": self._offer.client_id, "scope": scope}
        status, found = await asyncio.to_thread(self._web, where, form)
        if status != 200:
            raise Refused(f"{self._offer.issuer} gives no code to sign in with: {_why(found)}")
        complete = found.get("verification_uri_complete")
        return DeviceCode(
            check_web_address(_text(found, "verification_uri"), "the address to sign in at"),
            _text(found, "user_code"),
            check_web_address(complete, "the address to sign in at") if complete else "",
            min(_number(found, "expires_in", _LONGEST_WAIT), _LONGEST_WAIT),
            max(_number(found, "interval", _INTERVAL_SECONDS), 1.0),
            _text(found, "device_code"),
        )

    async def finish(self, url: str, code: DeviceCode) -> Login:
        """Wait until the person has signed in. Raises ``Refused`` if they refuse or take too long.

        Asks as often as the provider wants, less often when it says so or does not answer.
        """
        where = _endpoint(self._provider, "token_endpoint")
        form = {
            "grant_type": _DEVICE_GRANT,
            "device_code": code.secret,
            "client_id": self._offer.client_id,
        }
        ends, interval = self._clock.now() + code.seconds, code.interval
        while self._clock.now() + interval <= ends:
            await self._clock.sleep(interval)
            try:
                status, found = await asyncio.to_thread(self._web, where, form)
            except Unavailable:
                interval = min(2 * interval, _LONGEST_INTERVAL)
                continue
            if status == 200:
                return _login(url, self._offer, found)
            match found.get("error"):
                case "authorization_pending":
                    pass
                case "slow_down":
                    interval += _SLOWER_SECONDS
                case "access_denied":
                    raise Refused("the sign-in was refused: nothing is stored")
                case "expired_token":
                    break
                case _:
                    raise Refused(f"{self._offer.issuer} ended the sign-in: {_why(found)}")
        raise Refused("nobody signed in in time: run `sulina login` again")


def read_provider(issuer: str, web: WebCall) -> dict[str, Any]:
    """What an issuer says of itself. Blocks. Raises ``Refused`` and ``Unavailable``."""
    check_web_address(issuer, "the issuer")
    status, found = web(f"{issuer.rstrip('/')}/.well-known/openid-configuration", None)
    if status != 200:
        raise Refused(f"{issuer} is not an OpenID Connect provider: it answers {status}")
    if found.get("issuer") != issuer:
        raise Refused(f"{issuer} calls itself {found.get('issuer')!r}: the issuer must match")
    return found


# ---- what is stored ----


def stored_login(url: str) -> Callable[[], Awaitable[str]]:
    """A source of tokens for ``sulina.connect``, after ``sulina login`` for the same URL.

    Each call returns the stored token, renewed if it is about to expire. It raises ``Refused`` if
    nobody is signed in, or the sign-in has ended, and ``Unavailable`` if the provider does not
    answer and the token has expired.
    """
    return _StoredToken(url).current


class _StoredToken:
    def __init__(self, url: str, clock: Clock | None = None, web: WebCall = call_web) -> None:
        self._url = url
        self._clock = clock or RealClock()
        self._web = web

    async def current(self) -> str:
        login = read_login(self._url)
        if login is None:
            raise Refused(f"nobody is signed in at {self._url}: run `sulina login`")
        if self._left(login) > _EARLY_SECONDS:
            return login.token
        return await asyncio.to_thread(self._renewed)

    def _left(self, login: Login) -> float:
        return login.expires - self._clock.wall_us() / 1e6

    def _renewed(self) -> str:
        path = login_file(self._url)
        with locked(path):
            login = read_login(self._url)  # another process may have renewed it meanwhile
            if login is None:
                raise Refused(f"nobody is signed in at {self._url}: run `sulina login`")
            if self._left(login) > _EARLY_SECONDS:
                return login.token
            try:
                new = _refreshed(login, self._web)
            except Unavailable:
                if self._left(login) > 0:
                    return login.token
                raise
            save_login(new)
            return new.token


def read_login(url: str) -> Login | None:
    """The stored sign-in; None without one. Raises ``Refused`` if the file can't be read."""
    path = login_file(url)
    try:
        found = json.loads(path.read_text())
        login = Login(**{**found, "offer": SignInOffer(**found["offer"])})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise Refused(f"{path} can't be read ({error}): run `sulina login` again") from None
    return login


def save_login(login: Login) -> None:
    """Store a sign-in for its URL, readable by the user alone."""
    write_private(login_file(login.url), json.dumps(asdict(login)))


def forget_login(url: str, web: WebCall = call_web) -> bool:
    """Delete a stored sign-in, and tell the provider, if it can be reached, that its refresh token
    is no longer used. Blocks. Returns whether there was one."""
    path = login_file(url)
    try:
        login = read_login(url)
    except Refused:
        login = None
    existed = path.exists()
    path.unlink(missing_ok=True)
    path.with_suffix(".lock").unlink(missing_ok=True)
    if login is not None and login.refresh_token:
        with suppress(SulinaError):
            provider = read_provider(login.offer.issuer, web)
            form = {"token": login.refresh_token, "client_id": login.offer.client_id}
            web(_endpoint(provider, "revocation_endpoint"), form)
    return existed


def _refreshed(login: Login, web: WebCall) -> Login:
    if not login.refresh_token:
        raise Refused(f"the sign-in at {login.url} has expired: run `sulina login` again")
    where = _endpoint(read_provider(login.offer.issuer, web), "token_endpoint")
    form = {
        "grant_type": "refresh_token",
        "refresh_token": login.refresh_token,
        "client_id": login.offer.client_id,
    }
    status, found = web(where, form)
    if status >= 500:
        raise Unavailable(f"{login.offer.issuer} answers {status}: try again")
    if status != 200:
        raise Refused(
            f"the sign-in at {login.url} has ended ({_why(found)}): run `sulina login` again"
        )
    new = _login(login.url, login.offer, found)
    return new if new.refresh_token else replace(new, refresh_token=login.refresh_token)


def _login(url: str, offer: SignInOffer, found: Mapping[str, Any]) -> Login:
    """The tokens of an answer: of those that the brokers accept, the one for them."""
    for name in ("access_token", "id_token"):
        token = found.get(name)
        audience = _claims(token).get("aud") if isinstance(token, str) else None
        if offer.audience in (audience if isinstance(audience, list) else [audience]):
            refresh = found.get("refresh_token")
            return Login(url, offer, str(token), refresh if isinstance(refresh, str) else "")
    raise Refused(
        f"{offer.issuer} issued no token for {offer.audience!r}: the client {offer.client_id!r} "
        "must be allowed to get one"
    )


def _claims(token: str) -> dict[str, Any]:
    """What a token says, unchecked: brokers check it."""
    try:
        body = token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (ValueError, IndexError):
        return {}
    return found if isinstance(found, dict) else {}


def _endpoint(provider: Mapping[str, Any], name: str) -> str:
    found = provider.get(name)
    if not isinstance(found, str):
        what = name.removesuffix("_endpoint").replace("_", " ")
        raise Refused(f"{provider.get('issuer')} has no endpoint for {what}: use a token instead")
    return check_web_address(found, "the provider's endpoint")


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str) or not value:
        raise Refused(f"the provider's answer has no {name}")
    return value


def _number(found: Mapping[str, Any], name: str, default: float) -> float:
    value = found.get(name)
    return float(value) if isinstance(value, int | float) and value > 0 else default


def _why(found: Mapping[str, Any]) -> str:
    return str(found.get("error_description") or found.get("error") or "it gives no reason")[:300]
