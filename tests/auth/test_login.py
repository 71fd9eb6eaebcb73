"""Signing in by the device flow: the rules of RFC 8628, and a real provider in a process."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import aiohttp
import pytest

import sulina
from broker_containers.assembly.running import DoorSettings
from broker_containers.assembly.single import run_embedded
from broker_containers.doors.listen import Listen
from broker_containers.security.settings import AuthSettings, OidcSettings
from sulina.client.login import DeviceSignIn, Login, SignInOffer, read_login, save_login
from sulina.errors import Refused, SignInNeeded, Unavailable
from sulina.runtime.real_clock import RealClock
from sulina.runtime.user_files import login_file, write_private
from sulina.runtime.web_calls import check_web_address
from tests.auth.broker import ROOT, json_web_token
from tests.support.etcd import free_ports
from tests.support.fixtures import made_once

PATIENCE = 60.0
ISSUER = "https://id.example"
OFFER = SignInOffer(ISSUER, "sulina", "sulina")
URL = "sulina://127.0.0.1:6655"
PENDING = 400, {"error": "authorization_pending"}


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


# ---- the rules ----


class Slept:
    """A clock that does not wait, and remembers how long it should have."""

    def __init__(self) -> None:
        self.sleeps: list[float] = []

    def now(self) -> float:
        return sum(self.sleeps)

    def wall_us(self) -> int:
        return 0

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)


class Answers:
    """What a provider says, one after the other; an error is raised."""

    def __init__(self, *answers: Any, **code: Any) -> None:
        self._answers = list(answers)
        self._code = code
        self.forms: list[Mapping[str, str]] = []

    def __call__(
        self, url: str, form: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        if form is None:
            endpoints = ("token", "device_authorization", "revocation")
            named = {f"{each}_endpoint": f"{ISSUER}/{each}" for each in endpoints}
            return 200, {"issuer": ISSUER, "scopes_supported": ["offline_access"], **named}
        self.forms.append(form)
        if url.endswith("/device_authorization"):
            where = {"verification_uri": f"{ISSUER}/device", "user_code": "AB-CD"}
            return 200, {**where, "device_code": "secret", "expires_in": 60, **self._code}
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]


def tokens(**more: Any) -> tuple[int, dict[str, Any]]:
    return 200, {"id_token": json_web_token("mara", aud="sulina"), "refresh_token": "r1", **more}


async def sign_in(provider: Answers, clock: Slept) -> Login:
    flow = DeviceSignIn(OFFER, clock, provider)
    return await flow.finish(URL, await flow.begin())


async def test_the_provider_is_asked_as_often_as_it_wants() -> None:
    clock = Slept()
    slower = 400, {"error": "slow_down"}
    provider = Answers(PENDING, slower, PENDING, Unavailable("x"), tokens(), interval=2)
    made = await sign_in(provider, clock)
    assert clock.sleeps == [2, 2, 7, 7, 14]
    assert made.refresh_token == "r1" and made.expires > 0
    assert provider.forms[0] == {"client_id": "sulina", "scope": "openid offline_access"}
    assert provider.forms[1]["device_code"] == "secret"


async def test_without_an_interval_it_is_asked_every_five_seconds_until_the_code_expires() -> None:
    clock = Slept()
    with pytest.raises(Refused, match="in time"):
        await sign_in(Answers(*[PENDING] * 12), clock)
    assert clock.sleeps == [5.0] * 12


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((400, {"error": "access_denied"}), "was refused"),
        ((400, {"error": "expired_token"}), "in time"),
        ((400, {"error": "invalid_client", "error_description": "who?"}), "who?"),
        ((200, {"access_token": "opaque"}), "no token for 'sulina'"),
        ((200, {"id_token": json_web_token("mara", aud="other")}), "no token for 'sulina'"),
    ],
)
async def test_a_sign_in_that_fails_says_why(answer: Any, why: str) -> None:
    with pytest.raises(Refused, match=why):
        await sign_in(Answers(answer), Slept())


@pytest.mark.parametrize(
    "url", ["http://id.example", "ftp://x", "javascript:alert(1)", "https://a@b.example", "\x1b[1m"]
)
async def test_addresses_that_others_could_change_are_refused(url: str) -> None:
    with pytest.raises(Refused):
        check_web_address(url, "the issuer")
    with pytest.raises(Refused):
        await DeviceSignIn(SignInOffer(url, "sulina", "sulina"), Slept(), Answers()).begin()
    with pytest.raises(Refused):
        await DeviceSignIn(OFFER, Slept(), Answers(verification_uri=url)).begin()


def test_a_sign_in_is_stored_for_its_url_and_user_alone() -> None:
    login = Login(URL, OFFER, json_web_token("mara"), "r1")
    save_login(login)
    assert read_login(URL) == read_login(URL + "/") == login
    assert read_login("sulina://127.0.0.1:6656") is None
    path = login_file(URL)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    write_private(path, "{}")
    with pytest.raises(Refused, match="sulina login"):
        read_login(URL)


# ---- a real provider ----

PROVIDER = Path(__file__).parent / "oidc_provider"


@pytest.fixture(scope="session")
def provider_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("the provider needs Node.js")

    def install(folder: Path) -> None:
        shutil.copytree(PROVIDER, folder, dirs_exist_ok=True)
        done = subprocess.run(
            [npm, "ci", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, timeout=100
        )
        if done.returncode:
            pytest.skip(f"the provider can't be installed: {done.stderr.decode()[-300:]}")

    return made_once(tmp_path_factory, "oidc-provider", install)


@pytest.fixture
def issuer(provider_folder: Path) -> Iterator[str]:
    """A provider whose tokens are valid for 45 s: they are renewed each time."""
    [port] = free_ports(1)
    command = ["node", "provider.js", str(port), "45"]
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=provider_folder, stdout=nothing, stderr=nothing)
    yield f"http://localhost:{port}"
    process.kill()
    process.wait()


async def answering(url: str) -> None:
    async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as session:
        while True:
            with suppress(aiohttp.ClientError):
                async with session.get(f"{url}/jwks") as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.05)


async def in_a_browser(url: str, user: str, *, agree: bool = True) -> None:
    """Open the address, and fill in one form after the other."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        async with session.get(url) as answer:
            page, where = await answer.text(), str(answer.url)
        for _ in range(6):
            form = re.search(r'<form[^>]*action="([^"]*)"[^>]*>(.*?)</form>', page, re.DOTALL)
            if form is None:
                return
            inputs = re.findall(r"<(?:input|button)[^>]*>", form[2])
            fields = {
                name[1]: unescape(value[1])
                if (value := re.search(r'value="([^"]*)"', each))
                else ""
                for each in inputs
                if (name := re.search(r'name="([^"]*)"', each))
            }
            fields |= {name: user for name in ("login", "password") if name in fields}
            if agree:
                fields.pop("abort", None)
            elif "abort" in page:
                fields["abort"] = "yes"
            async with session.post(urljoin(where, unescape(form[1])), data=fields) as answer:
                page, where = await answer.text(), str(answer.url)


@asynccontextmanager
async def broker(folder: Path, issuer: str) -> AsyncIterator[tuple[str, sulina.Client]]:
    settings = AuthSettings(ROOT, oidc=OidcSettings(issuer, "sulina"))
    async with (
        run_embedded(folder / "data", DoorSettings(Listen(port=0)), auth=settings) as server,
        sulina.connect(server.addresses.url, token=ROOT) as root,
    ):
        yield server.addresses.url, root


async def command(url: str, *words: str, code: int = 0) -> str:
    """Run ``sulina``; returns what it printed."""
    line = [sys.executable, "-m", "sulina.cli", "--url", url, *words]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *line, stdout=pipe, stderr=asyncio.subprocess.STDOUT, env=os.environ
    )
    async with asyncio.timeout(PATIENCE):
        said, _ = await process.communicate()
    assert process.returncode == code, said
    return said.decode()


async def test_a_person_signs_in_works_and_signs_out(tmp_path: Path, issuer: str) -> None:
    await answering(issuer)
    async with broker(tmp_path, issuer) as (url, root):
        await root.admin.principals.grant("mara", ["topics:/default/*", "produce:/default/*"])
        with pytest.raises(SignInNeeded, match="sulina login") as needed:
            await sulina.connect(url).open()
        assert (needed.value.issuer, needed.value.client_id) == (issuer, "sulina")
        line = [sys.executable, "-m", "sulina.cli", "--url", url, "--json", "login"]
        process = await asyncio.create_subprocess_exec(*line, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        shown: dict[str, Any] = {}
        async with asyncio.timeout(PATIENCE):
            text = ""
            while not shown:
                text += (await process.stdout.readline()).decode()
                with suppress(ValueError):
                    shown = json.loads(text)
            assert shown["issuer"] == issuer
            await in_a_browser(shown["verification_uri_complete"], "mara")
            rest = await process.stdout.read()
            assert json.loads(rest) == {"signed_in": True, "principal": "mara"}
            assert await process.wait() == 0
        first = read_login(url)
        assert first is not None and first.refresh_token
        assert (await command(url, "whoami")).startswith("mara: topics:/default/*, produce")
        second = read_login(url)
        # The token was about to expire; this provider replaces refresh tokens, too.
        assert second is not None and second.refresh_token != first.refresh_token
        await command(url, "topic", "create", "/default/orders")
        async with (
            sulina.connect(url, token=sulina.stored_login(url)) as client,
            client.producer("/default/orders") as producer,
        ):
            await (await producer.send(b"hello"))
        assert (await command(url, "whoami", "--token", ROOT)).startswith("root:")
        last = read_login(url)
        assert last is not None
        assert await command(url, "logout") == f"signed out of {url}\n"
        assert not login_file(url).exists()
        assert "requires a token" in await command(url, "whoami", code=1)
        assert "nobody is signed in" in await command(url, "logout", code=1)
        save_login(last)  # as somebody would who had copied the file
        assert "has ended" in await command(url, "whoami", code=1)


async def test_a_refused_sign_in_stores_nothing(tmp_path: Path, issuer: str) -> None:
    class Hasty(RealClock):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(0.05)

    await answering(issuer)
    flow = DeviceSignIn(SignInOffer(issuer, "sulina", "sulina"), Hasty())
    code = await flow.begin()
    waiting = asyncio.create_task(flow.finish(URL, code))
    await in_a_browser(code.whole_address, "mara", agree=False)
    with pytest.raises(Refused, match="was refused"):
        await asyncio.wait_for(waiting, PATIENCE)
    assert not login_file(URL).exists()


async def test_a_broker_without_tls_is_not_believed() -> None:
    said = await command("sulina://broker.example:6655", "login", code=1)
    assert "is not protected by TLS" in said
    said = await command("sulina://broker.example:6655", "login", "--issuer", "x", code=1)
    assert "need each other" in said
