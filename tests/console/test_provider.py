"""Signing in with an OpenID Connect provider: a code with PKCE, in a real browser."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest
from aiohttp import web

import sulina
from broker_containers.assembly.running import DoorSettings
from broker_containers.assembly.single import run_embedded
from broker_containers.doors.listen import Listen
from broker_containers.security.settings import AuthSettings, OidcSettings
from tests.auth.test_openid import by_rsa, rsa_key, signed
from tests.console.browser import Browser
from tests.console.conftest import ROOT

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Provider:
    """Signs everybody in as mara, if the verifier is the one of the challenge."""

    def __init__(self) -> None:
        self.issuer = ""
        self._challenges: dict[str, str] = {}

    async def about(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "issuer": self.issuer,
                "jwks_uri": f"{self.issuer}/jwks",
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
            }
        )

    async def keys(self, request: web.Request) -> web.Response:
        return web.json_response({"keys": [rsa_key()]})

    async def authorize(self, request: web.Request) -> web.Response:
        asked = request.query
        assert (asked["response_type"], asked["client_id"]) == ("code", "sulina")
        assert asked["code_challenge_method"] == "S256"
        self._challenges["a-code"] = asked["code_challenge"]
        back = urlencode({"code": "a-code", "state": asked["state"]})
        raise web.HTTPFound(f"{asked['redirect_uri']}?{back}")

    async def token(self, request: web.Request) -> web.Response:
        given = await request.post()
        digest = hashlib.sha256(str(given["code_verifier"]).encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        headers = {"Access-Control-Allow-Origin": request.headers["Origin"]}
        if self._challenges.pop(str(given["code"]), None) != challenge:
            return web.json_response({"error": "invalid_grant"}, status=400, headers=headers)
        until = int(time.time()) + 600
        claims = {"iss": self.issuer, "aud": "sulina", "sub": "mara", "exp": until}
        made = signed(by_rsa, "RS256", claims, kid="r")
        return web.json_response({"access_token": "opaque", "id_token": made}, headers=headers)


@asynccontextmanager
async def provider() -> AsyncIterator[Provider]:
    found = Provider()
    application = web.Application()
    application.router.add_get("/.well-known/openid-configuration", found.about)
    application.router.add_get("/jwks", found.keys)
    application.router.add_get("/authorize", found.authorize)
    application.router.add_post("/token", found.token)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        found.issuer = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield found
    finally:
        await runner.cleanup()


async def test_a_person_signs_in_with_the_provider_and_comes_back_to_the_page(
    browser: Browser, tmp_path: Path
) -> None:
    doors = DoorSettings(Listen(port=0), http=Listen(port=0))
    async with provider() as known:
        auth = AuthSettings(ROOT, oidc=OidcSettings(known.issuer, "sulina"))
        async with (
            run_embedded(tmp_path, doors, auth=auth) as server,
            sulina.connect(server.addresses.url, token=ROOT) as root,
        ):
            await root.admin.topics.create("/default/orders")
            await root.admin.principals.grant("mara", ["consume:/default/*"])
            url = f"http://127.0.0.1:{server.addresses.http_port}"
            browser.errors.clear()
            await browser.goto(f"{url}/#/topics/default/orders")
            await browser.click("Sign in with 127.0.0.1")
            await browser.sees("mara", "/default/orders", "There are no messages here")
            assert await browser.run("location.href") == f"{url}/#/topics/default/orders"
            assert browser.errors == []

            # An answer that this tab has not asked for is refused: nobody is signed in by a link.
            await browser.run("sessionStorage.clear()")
            await browser.goto(f"{url}/?code=a-code&state=forged")
            await browser.sees("Signing in failed", "does not belong to a sign-in of this tab")
            assert await browser.run("location.search") == ""
