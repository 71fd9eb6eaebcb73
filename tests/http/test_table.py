"""The table of routes: complete, and what it documents is what is answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import validate

from broker_containers.doors.http.problems import KINDS
from broker_containers.doors.http.routes import ROUTES, Route, offered
from tests.http.broker import running
from tests.http.client import PROBLEM, Http
from tests.http.documented import check_documented

_MAY_BE_REFUSED = frozenset(
    {"topic.move", "broker.drain", "broker.activate", "balance.rebalance", "config.set"}
    | {"config.unset", "token.revoke", "ledger.offload", "ledger.verify"}
)
"""A broker that is alone has reasons to refuse these."""

_PATH = {
    "namespace": "default",
    "topic": "documented",
    "subscription": "sub%2Fwith%20%7B%7D",
    "broker": "broker-1",
    "name": "retention_seconds",
    "subject": "sub%2Fject",
    "id": "1",
    "principal": "documented",
    "role": "documented",
    "scope": "cluster",
    "binding": "documented",
}
_BODIES: dict[str, dict[str, Any]] = {
    "namespace.create": {"namespace": "made"},
    "namespace.policy": {"max_producers_per_topic": 100},
    "topic.create": {"topic": "/default/documented", "partitions": 0},
    "topic.policy": {"retention_ms": 1000, "retention_bytes": None},
    "subscription.create": {"subscription": "sub/with {}", "start": "earliest"},
    "subscription.seek": {"start": {"offset": 1}},
    "subscription.policy": {"poison": "drop"},
    "subscription.dispatch": {"max_unacked": 100},
    "ledger.verify": {"ledger": 1},
    "config.set": {"value": 10},
    "principal.grant": {"grants": ["produce:/default/*"]},
    "principal.withdraw": {"grants": ["produce:/default/*"]},
    "role.create": {"role": "documented", "permissions": ["Lookup"]},
    "binding.create": {
        "binding": "documented",
        "principal": "documented",
        "roles": ["documented"],
        "scope": "cluster",
    },
    "token.create": {"principal": "documented", "seconds": 60},
    "schema.register": {"type": "string", "tags": ["documented"]},
    "schema.find": {"type": "string"},
    "schema.check": {"type": "string", "compatibility": "full"},
    "schema.compatibility": {"compatibility": "full"},
    "schema.bind": {"subject": "sub/ject", "validation": "enforce"},
}
_ORDER = ("POST", "PUT", "PATCH", "GET", "DELETE")


def _path(route: Route) -> str:
    names = dict(_PATH)
    if route.path.startswith("/api/v1/namespaces"):
        names["namespace"] = "made"
    return route.path.format(**names)


def _turn(route: Route) -> tuple[int, int]:
    """Make first, from the general to the special, and delete last, the other way round."""
    depth = route.path.count("/")
    verb = _ORDER.index(route.verb)
    return verb, -depth if route.verb == "DELETE" else depth


async def test_every_method_of_admin_has_a_route(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        methods = broker.server.services.admin.methods
    assert methods <= {route.call for route in ROUTES}


async def test_the_openapi_document_is_valid_and_names_what_is_offered(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        document = await broker.http.ok("GET", "/openapi.json")
        routes = offered(broker.server.services.admin.methods)
    validate(document)
    named = {(verb.upper(), path) for path, verbs in document["paths"].items() for verb in verbs}
    assert named == {(route.verb, route.path) for route in routes}


async def test_every_answer_is_as_documented(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        http = broker.http
        document = await http.ok("GET", "/openapi.json")
        routes = offered(broker.server.services.admin.methods)
        for route in sorted(routes, key=_turn):
            if route.call == "messages.publish":
                answer = await http("POST", _path(route), data=b"hello")
            else:
                body = None if route.body is None else _BODIES.get(route.call, {})
                answer = await http(route.verb, _path(route), body)
            if route.call not in _MAY_BE_REFUSED or answer.type != PROBLEM:
                check_documented(route, answer, document)


async def test_what_needs_a_cluster_says_so_on_a_broker_that_is_alone(http: Http) -> None:
    answer = await http("POST", "/api/v1/balance/rebalance", {})
    assert "this broker is alone" in answer.problem(404, "no-such-path")


async def test_methods_that_admin_lacks_are_not_offered() -> None:
    calls = {route.call for route in offered({"topic.list"}) if not route.own}
    assert calls == {"topic.list"}


async def test_every_kind_of_problem_is_explained_on_the_page(http: Http) -> None:
    page = await http("GET", "/docs")
    assert page.type.startswith("text/html")
    for kind in KINDS:
        assert f'id="{kind.name}"' in page.text
    assert len({kind.name for kind in KINDS}) == len(KINDS)


async def test_the_page_needs_nothing_from_elsewhere(http: Http) -> None:
    page = await http("GET", "/docs")
    for word in ("<script", "src=", "@import", "url(", "http://", "https://"):
        assert word not in page.text
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/docs", "/health/live", "/api/v1/topics", "/metrics"])
async def test_head_is_answered_like_get_without_the_body(http: Http, path: str) -> None:
    answer = await http("HEAD", path)
    assert answer.status == 200 and not answer.body
