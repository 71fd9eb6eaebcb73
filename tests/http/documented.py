"""Checks that an answer is what the OpenAPI document says."""

from __future__ import annotations

from typing import Any

from openapi_schema_validator import OAS31Validator

from broker_containers.doors.http.routes import Endpoint
from tests.http.client import Answer


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
