"""The token that etcd gives for a user and a password, asked for when needed and shared."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class Token:
    """Holds the token; ``renew`` asks etcd for one."""

    def __init__(self, renew: Callable[[], Awaitable[str]] | None) -> None:
        """Without ``renew`` there are no passwords, and no token."""
        self._renew = renew
        self._value = ""
        self._asking = asyncio.Lock()

    async def headers(self) -> dict[str, str]:
        """What a request must carry. Raises what ``renew`` raises."""
        if self._renew is None:
            return {}
        async with self._asking:  # one asks and the others wait for what it gets
            if not self._value:
                self._value = await self._renew()
            return {"Authorization": self._value}

    def drop(self, headers: dict[str, str]) -> None:
        """Forget the token that was sent in ``headers``, unless there is a newer one already."""
        if headers.get("Authorization") == self._value:
            self._value = ""
