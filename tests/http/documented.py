"""Checks that an answer is what the OpenAPI document says."""

from __future__ import annotations

from typing import Any

from openapi_schema_validator import OAS31Validator

from broker_containers.doors.http.routes import Route
from tests.http.client import Answer


def check_documented(route: Route, answer: Answer, document: dict[str, Any]) -> None:
    """Status, media type and content of a success."""
    assert answer.status == route.status, (route.path, answer)
    operation = document["paths"][route.path][route.verb.lower()]
    documented = operation["responses"][str(answer.status)]
    if answer.status == 204:
        assert not answer.body and "content" not in documented
        return
    [(media, content)] = documented["content"].items()
    assert answer.type.partition(";")[0] == media
    if media == "application/json":
        OAS31Validator(content["schema"]).validate(answer.json)
