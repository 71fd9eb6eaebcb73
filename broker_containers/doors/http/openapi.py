"""The OpenAPI 3.1 document, written from the endpoints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from broker_containers.doors.http.messages import (
    EXPIRES_HEADER,
    KEY_HEADER,
    MESSAGES_TYPE,
    SCHEMA_HEADER,
    VERSION_HEADER,
)
from broker_containers.doors.http.problems import MEDIA_TYPE, ProblemDetails
from broker_containers.doors.http.routes import ENDPOINTS, PUBLISH, Endpoint
from sulina.operations.declaration import Argument
from sulina.operations.json_forms import Schema
from sulina.operations.json_types import form_of
from sulina.version import __version__

_TOKEN: Final = "token"
_NAME: Final = {"type": "string", "minLength": 1}


def document(endpoints: Iterable[Endpoint] = ENDPOINTS) -> dict[str, Any]:
    """The document of these endpoints."""
    named: dict[str, Schema] = {}
    form_of(ProblemDetails).schema(named)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.verb.lower()] = _described(endpoint, named)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sulina",
            "version": __version__,
            "description": "Discovery, administration and messages over HTTP.",
        },
        "paths": paths,
        "components": {
            "schemas": named,
            "securitySchemes": {_TOKEN: {"type": "http", "scheme": "bearer"}},
        },
        # Either: only a broker that runs with --auth asks for tokens.
        "security": [{}, {_TOKEN: []}],
    }


def body_schema(endpoint: Endpoint, named: dict[str, Schema]) -> Schema:
    """The JSON Schema of a body that is an object."""
    arguments = endpoint.body or {}
    return {
        "type": "object",
        "properties": {name: each.described.schema(named) for name, each in arguments.items()},
        "required": sorted(endpoint.required),
        "additionalProperties": False,
    }


def _described(endpoint: Endpoint, named: dict[str, Schema]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{endpoint.verb.lower()}.{endpoint.name}",
        "summary": endpoint.summary,
        "tags": [endpoint.group],
        "parameters": [
            *_path_parameters(endpoint, named),
            *(_parameter("query", each, named) for each in endpoint.query.values()),
        ],
        "responses": _responses(endpoint, named),
    }
    if endpoint.operation is not None:
        operation["description"] = endpoint.operation.description
        if endpoint.operation.needs_cluster:
            operation["description"] += "\n\nA single broker answers 404: this needs a cluster."
    if endpoint.public:
        operation["security"] = []
    if endpoint.name == PUBLISH:
        headers = {
            KEY_HEADER: "string",
            SCHEMA_HEADER: "integer",
            VERSION_HEADER: "integer",
            EXPIRES_HEADER: "integer",
        }
        operation["parameters"] += [
            {"name": name, "in": "header", "required": False, "schema": {"type": kind}}
            for name, kind in headers.items()
        ]
        operation["requestBody"] = {
            "content": {
                "application/octet-stream": {"schema": {}},
                MESSAGES_TYPE: {"schema": body_schema(endpoint, named)},
            }
        }
    elif endpoint.body is not None:
        operation["requestBody"] = {
            "required": bool(endpoint.required),
            "content": {"application/json": {"schema": body_schema(endpoint, named)}},
        }
    return operation


def _responses(endpoint: Endpoint, named: dict[str, Schema]) -> dict[str, Any]:
    problem = {"schema": {"$ref": f"#/components/schemas/{ProblemDetails.__name__}"}}
    success: dict[str, Any] = {"description": endpoint.summary}
    if endpoint.status != 204:
        success["content"] = {endpoint.media: {"schema": endpoint.answer_schema(named)}}
    responses = {
        "default": {"description": "What went wrong.", "content": {MEDIA_TYPE: problem}},
        str(endpoint.status): success,
    }
    if endpoint.name == "health.ready":
        responses["503"] = {**success, "description": "The broker does not serve."}
    return responses


def _path_parameters(endpoint: Endpoint, named: dict[str, Schema]) -> list[dict[str, Any]]:
    found = []
    for name, argument in endpoint.path_arguments.items():
        if name == "topic":
            found += [
                {"name": part, "in": "path", "required": True, "schema": _NAME}
                for part in ("namespace", "topic")
            ]
        else:
            found.append(_parameter("path", argument, named))
    return found


def _parameter(place: str, argument: Argument, named: dict[str, Schema]) -> dict[str, Any]:
    found = {
        "name": argument.name,
        "in": place,
        "required": place == "path",
        "schema": argument.described.form.schema(named),
    }
    if argument.described.description:
        found["description"] = argument.described.description
    return found
