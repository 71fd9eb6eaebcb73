"""The OpenAPI 3.1 document, made from the table of routes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from broker_containers.doors.http import schemas as s
from broker_containers.doors.http.messages import KEY_HEADER, SCHEMA_HEADER, VERSION_HEADER
from broker_containers.doors.http.problems import MEDIA_TYPE
from broker_containers.doors.http.routes import MESSAGES_TYPE, Route
from sulina.version import __version__

_TOKEN = "token"


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """What these routes offer."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.verb.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sulina",
            "version": __version__,
            "description": "Discovery, administration and messages over HTTP.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Problem": s.PROBLEM},
            "securitySchemes": {_TOKEN: {"type": "http", "scheme": "bearer"}},
        },
        # Either: only a broker that was told to asks for tokens.
        "security": [{}, {_TOKEN: []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{route.verb.lower()}.{route.call}{'.' + route.pick if route.pick else ''}",
        "summary": route.summary,
        "tags": [route.group],
        "parameters": [_parameter("path", name, s.NAME) for name in route.parameters],
        "responses": _responses(route),
    }
    operation["parameters"] += [
        _parameter("query", name, schema) for name, schema in route.query.items()
    ]
    if route.body is not None:
        operation["requestBody"] = {
            "required": bool(route.body["required"]),
            "content": {"application/json": {"schema": route.body}},
        }
    if route.open:
        operation["security"] = []
    if route.call == "messages.publish":
        operation["parameters"] += [
            _parameter("header", KEY_HEADER, s.TEXT),
            _parameter("header", SCHEMA_HEADER, s.COUNT),
            _parameter("header", VERSION_HEADER, s.COUNT),
        ]
        operation["requestBody"] = {
            "content": {
                "application/octet-stream": {"schema": {}},
                MESSAGES_TYPE: {"schema": s.MESSAGES_IN},
            }
        }
    return operation


def _responses(route: Route) -> dict[str, Any]:
    problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
    responses: dict[str, Any] = {
        "default": {"description": "What went wrong.", "content": {MEDIA_TYPE: problem}}
    }
    answer = {"schema": route.answer}
    success: dict[str, Any] = {"description": route.summary}
    if route.status != 204:
        success["content"] = {route.media: answer}
    responses[str(route.status)] = success
    if route.call == "health.ready":
        responses["503"] = {"description": "It does not serve.", "content": {route.media: answer}}
    if route.call == "messages.publish":
        success["content"] = {route.media: {"schema": {"oneOf": [s.PUBLISHED, s.PUBLISHED_ALL]}}}
    return responses


def _parameter(place: str, name: str, schema: s.Schema) -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "schema": schema,
        **({"description": schema["description"]} if "description" in schema else {}),
    }
