"""From a request to an operation's arguments: path, query and body.

Names that the operation does not have are refused: a misspelled field that is ignored looks like
success.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from broker_containers.doors.http.bodies import json_object, read_body
from broker_containers.doors.http.problems import WRONG_MEDIA_TYPE, Problem
from broker_containers.doors.http.routes import Endpoint
from sulina.errors import Refused
from sulina.operations.declaration import Argument, choices


async def arguments_of(endpoint: Endpoint, request: web.Request, max_body: int) -> dict[str, Any]:
    """The JSON arguments of a request. Raises ``Refused``, ``TooLarge`` or ``Problem``."""
    found = {
        name: _parsed(argument, topic_of(request) if name == "topic" else request.match_info[name])
        for name, argument in endpoint.path_arguments.items()
    }
    for name, text in request.query.items():
        if name not in endpoint.query:
            raise Refused(f"there is no parameter {name!r}: {choices(endpoint.query)}")
        if name in found:
            raise Refused(f"{name} is given twice: choose one")
        found[name] = _parsed(endpoint.query[name], text)
    body = await read_body(request, max_body)
    if endpoint.body is not None:
        given = _json_body(request, body)
        for name in given:
            if name not in endpoint.body:
                raise Refused(f"there is no field {name!r}: {choices(endpoint.body)}")
        for name in sorted(endpoint.required - given.keys()):
            raise Refused(f"{name} is missing: give it in the JSON body")
        found.update(given)
    elif body:
        raise Refused(f"{endpoint.verb} {endpoint.path} takes no body: send none")
    return found


def _parsed(argument: Argument, text: str) -> Any:
    form = argument.described.form
    return form.encode(form.parse(text, argument.name))


def topic_of(request: web.Request) -> str:
    """The topic that the path names."""
    return f"/{request.match_info['namespace']}/{request.match_info['topic']}"


def _json_body(request: web.Request, body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    kind = request.content_type
    # curl labels whatever it sends with -d as a form; what counts is that it is JSON.
    known = ("application/json", "application/x-www-form-urlencoded")
    if "Content-Type" in request.headers and kind not in known:
        raise Problem(WRONG_MEDIA_TYPE, f"the body must be application/json, not {kind}")
    return json_object(body)
