"""From a request to the arguments of a method: path, query and body, checked against the table.

What the table does not name is refused: a misspelled field that is ignored looks like success.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from broker_containers.doors.http.problems import WRONG_MEDIA_TYPE, Problem
from broker_containers.doors.http.routes import Route
from broker_containers.doors.http.schemas import Schema
from sulina.errors import Refused, TooLarge

_CHUNK = 64 << 10
_LONGEST_NUMBER = 19
"""Digits: as many as 63 bits have."""
_TRUTH = {"true": True, "1": True, "": True, "false": False, "0": False}


async def arguments(route: Route, request: web.Request, max_body: int) -> dict[str, Any]:
    """What to call the route's method with. Raises ``Refused``, ``TooLarge`` or ``Problem``."""
    found: dict[str, Any] = dict(request.match_info)
    if "namespace" in found and "topic" in found:
        found["topic"] = topic_of(request)
        del found["namespace"]
    found.update(query(route, request))
    body = await read_body(request, max_body)
    if route.body is not None:
        found.update(_fields(route.body, _json(request, body)))
    elif body:
        raise Refused(f"{route.verb} {route.path} takes no body: send none")
    return found


def topic_of(request: web.Request) -> str:
    """The topic that the path names."""
    return f"/{request.match_info['namespace']}/{request.match_info['topic']}"


def query(route: Route, request: web.Request) -> dict[str, Any]:
    """The query's values, as the types that the table gives them."""
    found: dict[str, Any] = {}
    for name, text in request.query.items():
        if name not in route.query:
            raise Refused(f"there is no parameter {name!r}: {_choices(route.query)}")
        if name in found:
            raise Refused(f"{name} is given twice: choose one")
        found[name] = _typed(name, route.query[name], text)
    return found


def _typed(name: str, schema: Schema, text: str) -> Any:
    if schema["type"] == "boolean":
        if text.lower() not in _TRUTH:
            raise Refused(f"{name} is true or false, not {text!r}")
        return _TRUTH[text.lower()]
    if schema["type"] == "integer":
        return number(name, text)
    return text


def number(name: str, text: str) -> int:
    """A whole number from 0 on. Raises ``Refused``."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER):
        raise Refused(f"{name} is a whole number, not {text!r}")
    return int(text)


async def read_body(request: web.Request, limit: int) -> bytes:
    """The body, if it is not larger than ``limit``; else raises ``TooLarge``."""
    if (request.content_length or 0) > limit:
        raise TooLarge(f"a body of {request.content_length} bytes is over the limit of {limit}")
    parts: list[bytes] = []
    size = 0
    async for part in request.content.iter_chunked(_CHUNK):
        size += len(part)
        if size > limit:
            raise TooLarge(f"the body is over the limit of {limit} bytes")
        parts.append(part)
    return b"".join(parts)


def _json(request: web.Request, body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    kind = request.content_type
    # curl says "form" of whatever it sends with -d; what counts is that it is JSON.
    known = ("application/json", "application/x-www-form-urlencoded")
    if "Content-Type" in request.headers and kind not in known:
        raise Problem(WRONG_MEDIA_TYPE, f"the body must be application/json, not {kind}")
    return json_object(body)


def json_object(body: bytes) -> dict[str, Any]:
    """The object that a body is. Raises ``Refused``."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:  # the latter for what is nested without an end
        why = f" ({error})" if isinstance(error, json.JSONDecodeError) else ""
        raise Refused(f"the body is not JSON{why}: check its quotes and commas") from None
    if not isinstance(value, dict):
        raise Refused("the body must be a JSON object: {...}")
    return value


def _fields(schema: Schema, body: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in body:
        if name not in schema["properties"]:
            raise Refused(f"there is no field {name!r}: {_choices(schema['properties'])}")
    for name in schema["required"]:
        if name not in body:
            raise Refused(f"{name} is missing: give it in the JSON body")
    return body


def _choices(known: Mapping[str, Any]) -> str:
    return f"choose from {', '.join(known)}" if known else "give none"
