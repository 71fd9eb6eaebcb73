"""Who makes an HTTP request, by its header ``Authorization: Bearer ...``."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from broker_containers.security.access import Access
from broker_containers.security.authority import Authority

_SCHEME: Final = "bearer "


def access_of(request: web.Request, authority: Authority) -> Access:
    """What the caller may do; waits for nothing. Raises ``Unauthenticated``."""
    text = request.headers.get("Authorization", "")
    known = text[: len(_SCHEME)].lower() == _SCHEME
    return authority.access(text[len(_SCHEME) :].strip() if known else "")
