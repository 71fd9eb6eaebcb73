"""The console in a real browser: signing in, what it shows live, and what nobody can do to it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from broker_containers.assembly.running import DoorSettings
from broker_containers.assembly.single import run_embedded
from broker_containers.doors.listen import Listen
from tests.console.browser import Browser
from tests.console.conftest import ROOT, Site, sign_in
from tests.support.etcd import free_ports

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_person_signs_in_with_a_token_and_sees_a_living_system(
    browser: Browser, site: Site
) -> None:
    await browser.goto(f"{site.url}/")
    await browser.run("sessionStorage.clear()")
    browser.errors.clear()  # of the page that another test left open
    await browser.goto(f"{site.url}/#/topics?text=orders")
    await browser.sees("Sign in to Sulina", "sulina security token create")
    assert await browser.accessibility_problems() == []
    assert browser.errors == []

    await browser.fill("Token", "of nobody")
    await browser.click("Sign in")
    await browser.sees("A valid token is required")
    browser.errors.clear()  # the browser logs every answer of 401

    await browser.fill("Token", ROOT)
    await browser.click("Sign in")
    await browser.sees("root", "Live")
    # The token is in no URL, and in nothing that outlives the tab.
    assert ROOT not in await browser.run("location.href")
    assert ROOT not in await browser.run("JSON.stringify(localStorage) + document.cookie")

    await browser.goto(f"{site.url}/")  # a reload of the tab stays signed in
    await browser.sees("Overview", "Published", "Publish latency", "broker-1", "serves")
    first = await browser.run("document.querySelector('.chart path.line').getAttribute('d')")
    await site.sampler.take()
    await browser.until(
        f"document.querySelector('.chart path.line').getAttribute('d') != {first!r}"
    )

    await browser.click("Sign out")
    await browser.sees("Sign in to Sulina")
    assert await browser.run("sessionStorage.length") == 0
    assert browser.errors == []


async def test_no_other_site_can_use_or_frame_the_console(browser: Browser, site: Site) -> None:
    answer = await site.http("GET", "/")
    policy = answer.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in policy and "script-src 'self'" in policy
    assert "unsafe" not in policy and "default-src 'none'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "Set-Cookie" not in answer.headers  # there is nothing that a browser sends by itself

    # A page of another origin, in the same browser in which somebody is signed in.
    await sign_in(browser, site)
    async with _other_site(site.url) as url:
        await browser.goto(url)
        while not any("frame-ancestors" in each for each in browser.errors):
            await asyncio.sleep(0.05)  # the browser says that it shows no frame
        outcome = await browser.run(
            f"fetch('{site.url}/api/v1/topics', {{method: 'POST', credentials: 'include', "
            "body: '{\"topic\": \"/default/forged\"}'}).then((a) => a.status, () => 'blocked')"
        )
        assert outcome == "blocked"
    names = [each["topic"] for each in await site.http.ok("GET", "/api/v1/topics")]
    assert "/default/forged" not in names
    browser.errors.clear()


async def test_files_are_compared_by_checksum_and_compressed(site: Site) -> None:
    answer = await site.http("GET", "/console/app.js")
    assert answer.type.startswith("text/javascript") and answer.headers["ETag"]
    again = await site.http(
        "GET", "/console/app.js", headers={"If-None-Match": answer.headers["ETag"]}
    )
    assert again.status == 304 and not again.body
    async with (
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.get(f"{site.url}/console/app.js", headers={"Accept-Encoding": "gzip"}) as packed,
    ):
        assert packed.headers["Content-Encoding"] == "gzip"
        assert len(await packed.read()) < len(answer.body)
    for path in ("/console/../routes.py", "/console/%2e%2e/routes.py", "/console/", "/console/x"):
        assert (await site.http("GET", path)).status == 404


async def test_a_stream_of_overviews_needs_the_right_and_is_shared(site: Site) -> None:
    headers = {"Authorization": f"Bearer {ROOT}"}
    url = f"{site.url}/console/live"
    async with aiohttp.ClientSession() as session:
        async with session.get(url) as refused:
            assert refused.status == 401
        async with (
            session.get(url, headers=headers) as one,
            session.get(url, headers=headers) as two,
        ):
            first = [await each.content.readuntil(b"\n\n") for each in (one, two)]
            assert first[0] == first[1] and first[0].startswith(b"event: overview\ndata: {")
            await site.sampler.take()
            next_ones = await asyncio.gather(
                *(each.content.readuntil(b"\n\n") for each in (one, two))
            )
            assert next_ones[0] == next_ones[1] != first[0]


async def test_a_broker_that_stops_is_told_and_one_that_is_back_is_shown_again(
    browser: Browser, tmp_path: Path
) -> None:
    [port] = free_ports(1)
    doors = DoorSettings(Listen(port=0), http=Listen(port=port))
    async with run_embedded(tmp_path, doors):
        await browser.goto(f"http://127.0.0.1:{port}/")
        await browser.sees("Live", "Busiest topics")
    await browser.sees("No connection; trying again", "Busiest topics")
    async with run_embedded(tmp_path, doors):
        await browser.until("!document.body.innerText.includes('No connection')")
        await browser.sees("Live", "Busiest topics")
    browser.errors.clear()  # the browser logs each connection that fails


class _other_site:  # noqa: N801
    """A web site that frames another."""

    def __init__(self, framed: str) -> None:
        self._framed = framed

    async def __aenter__(self) -> str:
        from aiohttp import web

        async def page(request: web.Request) -> web.Response:
            text = f"<iframe src='{self._framed}/'></iframe>"
            return web.Response(text=f"<!doctype html>{text}", content_type="text/html")

        application = web.Application()
        application.router.add_get("/", page)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        place = web.TCPSite(self._runner, "127.0.0.1", 0)
        await place.start()
        return f"http://localhost:{self._runner.addresses[0][1]}/"

    async def __aexit__(self, *exc: object) -> None:
        await self._runner.cleanup()
