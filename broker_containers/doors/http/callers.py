"""Who makes an HTTP request, by its header ``Authorization: Bearer ...``."""

from __future__ import annotations

from aiohttp import web

from broker_containers.security.access import Access
from broker_containers.security.authority import Authority
from broker_containers.security.bearer import bearer_token


def access_of(request: web.Request, authority: Authority) -> Access:
    """What the caller may do; waits for nothing. Raises ``Unauthenticated``."""
    return authority.access(bearer_token(request.headers.get("Authorization", "")))
