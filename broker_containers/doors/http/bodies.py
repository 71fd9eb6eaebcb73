"""Reads the body of a request: bounded, and as JSON."""

from __future__ import annotations

import json
from typing import Any, Final

from aiohttp import web

from sulina.errors import Refused, TooLarge

_CHUNK: Final = 64 << 10


async def read_body(request: web.Request, limit: int) -> bytes:
    """The body. Raises ``TooLarge`` if it has more than ``limit`` bytes."""
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


def json_object(body: bytes) -> dict[str, Any]:
    """The JSON object in a body. Raises ``Refused``."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:  # the latter for very deep nesting
        why = f" ({error})" if isinstance(error, json.JSONDecodeError) else ""
        raise Refused(f"the body is not JSON{why}: check its quotes and commas") from None
    if not isinstance(value, dict):
        raise Refused("the body must be a JSON object: {...}")
    return value
