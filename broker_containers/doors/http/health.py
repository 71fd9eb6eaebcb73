"""Whether the broker serves: every part that it needs is asked, each with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from sulina.errors import SulinaError
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_SECONDS = 2.0

Check = Callable[[], Awaitable[str]]
"""Says how the part is; raises a ``SulinaError`` with the reason if it does not serve."""


class Health:
    """The parts of one broker, by name."""

    def __init__(self, broker: str, clock: Clock, parts: Mapping[str, Check]) -> None:
        self._broker = broker
        self._clock = clock
        self._parts = dict(parts)
        self.stopping = False
        """A broker that stops is not ready, so that nobody new is sent to it."""

    def live(self) -> dict[str, Any]:
        """The process answers; that is all."""
        return {"status": "live", "broker": self._broker, "parts": {}}

    async def ready(self) -> tuple[bool, dict[str, Any]]:
        """Whether all parts serve, and how each of them is."""
        answers = await asyncio.gather(*map(self._ask, self._parts.values()))
        parts = {
            name: {"ok": ok, "detail": detail}
            for name, (ok, detail) in zip(self._parts, answers, strict=True)
        }
        if self.stopping:
            parts["broker"] = {"ok": False, "detail": "it is shutting down"}
        ready = all(part["ok"] for part in parts.values())
        status = "ready" if ready else "unready"
        return ready, {"status": status, "broker": self._broker, "parts": parts}

    async def _ask(self, check: Check) -> tuple[bool, str]:
        try:
            return True, await within(self._clock, _SECONDS, check())
        except SulinaError as error:
            return False, str(error)
        except TimeoutError:
            return False, f"no answer within {_SECONDS:g} s"
