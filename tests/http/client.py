"""An HTTP client with a bound on every wait, and a broker with an HTTP door in this process."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext
from typing import Any

import aiohttp
from openapi_schema_validator import OAS31Validator
from yarl import URL

from broker_containers.assembly.running import DoorSettings, RunningBroker
from broker_containers.assembly.single import run_embedded
from broker_containers.broker.settings import BrokerSettings, HttpSettings
from broker_containers.doors.http.routes import Endpoint
from broker_containers.doors.listen import Listen

SECONDS = 60.0
PROBLEM = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def type(self) -> str:
        return self.headers["Content-Type"]

    def problem(self, status: int, kind: str) -> str:
        """Its detail, after checking that it is a problem of this kind."""
        assert (self.status, self.type) == (status, PROBLEM), self
        body = self.json
        assert body["status"] == status and body["type"] == f"/docs#{kind}", body
        assert body["title"] and body["detail"], body
        return str(body["detail"])


class Http:
    """A client of one broker."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self.url = url

    async def __call__(
        self,
        verb: str,
        path: str,
        value: Any = None,
        *,
        data: Any = None,
        headers: Mapping[str, str] | None = None,
        ssl: SSLContext | bool = True,
    ) -> Answer:
        """Send a request; ``value`` as JSON, ``data`` as it is. The path is encoded already."""
        url = URL(self.url + path, encoded=True)
        async with self._session.request(
            verb, url, json=value, data=data, headers=headers, ssl=ssl
        ) as response:
            return Answer(response.status, response.headers, await response.read())

    async def ok(self, verb: str, path: str, value: Any = None, **more: Any) -> Any:
        """The JSON of an answer that must be a success; None if it is empty."""
        answer = await self(verb, path, value, **more)
        assert 200 <= answer.status < 300, answer
        return answer.json if answer.body else None


@asynccontextmanager
async def http_client(url: str, **options: Any) -> AsyncIterator[Http]:
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    async with aiohttp.ClientSession(timeout=timeout, **options) as session:
        yield Http(session, url)


@dataclass(frozen=True, slots=True)
class Running:
    """The broker and a client of its HTTP door."""

    server: RunningBroker
    http: Http

    @property
    def port(self) -> int:
        assert self.server.addresses.http_port is not None
        return self.server.addresses.http_port


@asynccontextmanager
async def running(folder: Path, settings: HttpSettings | None = None) -> AsyncIterator[Running]:
    broker = BrokerSettings(http=settings or HttpSettings())
    serving = run_embedded(
        folder / "data", DoorSettings(Listen(port=0), http=Listen(port=0)), broker
    )
    async with (
        serving as server,
        http_client(f"http://127.0.0.1:{server.addresses.http_port}") as http,
    ):
        yield Running(server, http)


def check_documented(endpoint: Endpoint, answer: Answer, document: dict[str, Any]) -> None:
    """Check status, media type and content of a success."""
    assert answer.status == endpoint.status, (endpoint.path, answer)
    operation = document["paths"][endpoint.path][endpoint.verb.lower()]
    documented = operation["responses"][str(answer.status)]
    if answer.status == 204:
        assert not answer.body and "content" not in documented
        return
    [(media, content)] = documented["content"].items()
    assert answer.type.partition(";")[0] == media
    if media == "application/json":
        schema = {**content["schema"], "components": document["components"]}
        OAS31Validator(schema).validate(answer.json)
