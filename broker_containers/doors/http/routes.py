"""Every path of the HTTP door. Those of operations follow from their declarations.

``{topic}`` in a declared path becomes ``{namespace}/{topic}`` here: together they name a topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from broker_containers.doors.http.health import HealthReport
from broker_containers.doors.http.messages import PublishedMessage, PublishedMessages
from sulina.operations.declaration import Argument, Declaration, HttpRoute
from sulina.operations.json_forms import Schema
from sulina.operations.json_types import form_of
from sulina.operations.messages import MessageOperations
from sulina.operations.operation_list import OPERATIONS

API: Final = "/api/v1"
PUBLISH: Final = MessageOperations.publish.name
_IN_QUERY: Final = frozenset({"GET", "DELETE"})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One verb on one path."""

    verb: str
    path: str
    name: str
    """The operation, or the page of the door itself."""
    summary: str
    group: str
    """The chapter of the documentation."""
    status: int = 200
    """Of success; 204 answers without a body."""
    path_arguments: Mapping[str, Argument] = field(default_factory=dict)
    query: Mapping[str, Argument] = field(default_factory=dict)
    body: Mapping[str, Argument] | None = None
    required: frozenset[str] = frozenset()
    """Fields of the body that must be given."""
    operation: Declaration | None = None
    """None for a page of the door itself."""
    public: bool = False
    """Whether no token is needed: the answer has no secrets."""
    media: str = "application/json"
    """Of the answer."""
    answer: Any = None
    """The type of a page's answer."""

    def answer_schema(self, named: dict[str, Schema]) -> Schema:
        """The JSON Schema of a success."""
        if self.name == PUBLISH:
            both = (PublishedMessage, PublishedMessages)
            return {"oneOf": [form_of(each).schema(named) for each in both]}
        if self.operation is None:
            return {"type": "string"} if self.answer is None else form_of(self.answer).schema(named)
        return self.operation.result.schema(named)


def _endpoint(operation: Declaration, route: HttpRoute) -> Endpoint:
    in_path = {name: operation.arguments[name] for name in route.path_arguments}
    others = {name: each for name, each in operation.arguments.items() if name not in in_path}
    reads, in_query = route is operation.read, route.verb in _IN_QUERY
    required = {name for name, each in others.items() if each.required}
    if operation.read is not None and len(others) == 1:
        required = set(others)  # the one thing that this route changes
    return Endpoint(
        route.verb,
        API + route.path.replace("{topic}", "{namespace}/{topic}"),
        operation.name,
        operation.summary,
        route.path.split("/")[1],
        route.status,
        in_path,
        query=others if in_query and not reads else {},
        body=None if in_query else others,
        required=frozenset(required),
        operation=operation,
    )


def _page(path: str, name: str, summary: str, **more: Any) -> Endpoint:
    return Endpoint("GET", path, name, summary, "server", **more)


PAGES: Final = (
    _page(
        "/",
        "index",
        "The console; for programs that accept only JSON, links to everything below.",
        public=True,
        media="text/html",
    ),
    _page(
        "/health/live",
        "health.live",
        "Show whether the process answers.",
        public=True,
        answer=HealthReport,
    ),
    _page(
        "/health/ready",
        "health.ready",
        "Show whether the broker serves; 503 with the reasons if it does not.",
        public=True,
        answer=HealthReport,
    ),
    _page(
        "/metrics",
        "metrics",
        "Metrics in Prometheus' text format: all, or those of topics that the caller may look up.",
        media="text/plain",
    ),
    _page("/openapi.json", "openapi", "The OpenAPI document.", public=True, answer=dict[str, Any]),
    _page("/docs", "docs", "The documentation.", public=True, media="text/html"),
)
ENDPOINTS: Final = (
    *(_endpoint(each, route) for each in OPERATIONS.values() for route in each.routes),
    *PAGES,
)
