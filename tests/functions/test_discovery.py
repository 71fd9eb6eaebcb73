"""A request that the function gets is answered by a broker's HTTP application."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from functions.discovery import handler as discovery
from functions.shared.http_event import HttpAnswer, HttpRequest
from tests.functions.conftest import FunctionAccount
from tests.http.client import Running, running


@pytest.fixture
async def broker(
    account: FunctionAccount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Running]:
    async with running(tmp_path) as found:
        monkeypatch.setenv("SULINA_BROKERS", f"http://127.0.0.1:{found.port}")
        yield found


class TokenServer:
    """Answers 401 to requests without its token."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        shown = request.headers.get("Authorization")
        return web.Response(status=200 if shown == f"Bearer {self.token}" else 401)


@asynccontextmanager
async def asking_for(token: str) -> AsyncIterator[TokenServer]:
    server = TokenServer(token)
    application = web.Application()
    application.router.add_route("*", "/", server.answer)
    async with TestServer(application) as running_server:
        server.url = str(running_server.make_url("")).rstrip("/")
        yield server


async def ask(request: HttpRequest) -> HttpAnswer:
    """Call the function as Lambda does, with the broker in the same process."""
    event = json.loads(json.dumps(request.to_event()))
    return HttpAnswer.from_event(await asyncio.to_thread(discovery.handler, event, None))


async def call(method: str, path: str, body: Any = None, **headers: str) -> Any:
    data = b"" if body is None else json.dumps(body).encode()
    answer = await ask(HttpRequest(method, path, headers=headers, body=data))
    assert answer.status < 300, answer.body
    return json.loads(answer.body) if answer.body else None


async def test_what_the_function_answers_is_what_the_broker_answers(broker: Running) -> None:
    for path in ("/openapi.json", "/docs", "/api/v1/namespaces", "/health/ready"):
        directly = await broker.http("GET", path)
        answer = await ask(HttpRequest("GET", path))
        assert (answer.status, answer.body) == (directly.status, directly.body)


async def test_topics_are_made_published_to_read_and_deleted_through_it(broker: Running) -> None:
    await call("POST", "/api/v1/topics", {"topic": "/default/orders"})
    path = "/api/v1/topics/default/orders/messages"
    payload = bytes(range(256))
    request = HttpRequest("POST", path, headers={"sulina-key": "k"}, body=payload)
    assert (await ask(request)).status == 200
    answer = await ask(HttpRequest("GET", path, "start=earliest&limit=5"))
    [message] = json.loads(answer.body)["messages"]
    assert base64.b64decode(message["payload_base64"]) == payload
    assert message["key"] == "k"
    assert (await ask(HttpRequest("DELETE", "/api/v1/topics/default/orders"))).status == 204


async def test_errors_of_the_broker_come_back_as_they_are(broker: Running) -> None:
    answer = await ask(HttpRequest("GET", "/api/v1/topics/default/missing"))
    assert answer.status == 404
    assert answer.headers["Content-Type"].startswith("application/problem+json")
    assert json.loads(answer.body)["type"] == "/docs#not-found"


async def test_a_broker_that_does_not_answer_is_passed_over(
    broker: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SULINA_BROKERS", f"http://127.0.0.1:1, http://127.0.0.1:{broker.port}")
    assert await call("GET", "/api/v1/namespaces") == ["default", "system"]
    await call("POST", "/api/v1/topics", {"topic": "/default/orders"})


async def test_without_any_broker_the_answer_is_503_and_where_the_cluster_is_is_still_told(
    account: FunctionAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SULINA_BROKERS", "http://127.0.0.1:1")
    monkeypatch.setenv("SULINA_URL", "sulina+tls://cluster.example:6655")
    answer = await ask(HttpRequest("GET", "/api/v1/namespaces"))
    assert (answer.status, json.loads(answer.body)["retriable"]) == (503, True)
    found = await call("GET", "/discovery")
    assert found["url"] == "sulina+tls://cluster.example:6655"
    assert found["cluster"] == account.bucket


async def test_the_token_of_the_secret_is_shown_and_read_again_when_it_was_changed(
    account: FunctionAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = account.client("secretsmanager")
    secrets.create_secret(Name=account.bucket, SecretString="old")
    monkeypatch.setenv("SULINA_TOKEN_SECRET", account.bucket)
    async with asking_for("old") as door:
        monkeypatch.setenv("SULINA_BROKERS", door.url)
        assert (await ask(HttpRequest("GET", "/", headers={"authorization": "AWS4"}))).status == 200
        secrets.put_secret_value(SecretId=account.bucket, SecretString="new")
        door.token = "new"
        assert (await ask(HttpRequest("GET", "/"))).status == 200
        door.token = "unknown"
        assert (await ask(HttpRequest("GET", "/"))).status == 401


async def test_a_function_that_only_reads_changes_nothing(
    broker: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SULINA_READ_ONLY", "yes")
    assert await call("GET", "/api/v1/topics") == []
    body = json.dumps({"topic": "/default/orders"}).encode()
    assert (await ask(HttpRequest("POST", "/api/v1/topics", body=body))).status == 403
    assert await call("GET", "/api/v1/topics") == []


async def test_an_event_that_is_not_a_request_is_refused_with_a_sentence(
    account: FunctionAccount,
) -> None:
    answer = HttpAnswer.from_event(discovery.handler({"job": "audit"}, None))
    assert answer.status == 400
    assert "not an HTTP request" in json.loads(answer.body)["detail"]


def test_the_stage_of_an_api_gateway_and_odd_characters_in_paths_are_seen_to() -> None:
    event = {
        "rawPath": "/prod/api/v1/topics/default/a b%20c",
        "requestContext": {"http": {"method": "get"}, "stage": "prod"},
        "headers": {"X-One": "1"},
    }
    request = HttpRequest.from_event(event)
    assert request.path == "/api/v1/topics/default/a%20b%20c"
    assert (request.method, request.headers) == ("GET", {"x-one": "1"})
