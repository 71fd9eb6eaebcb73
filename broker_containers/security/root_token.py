"""The root token, which changes when its file does: a rotation needs no restart.

After a change both tokens are accepted for a while. Brokers present the new one to each other only
after half of that time, so that the file can be replaced on one broker after the other.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from broker_containers.security.settings import check_root
from sulina.errors import Refused
from sulina.runtime.seam import Clock

_log = logging.getLogger(__name__)
_POLL_SECONDS: Final = 1.0
OVERLAP_SECONDS: Final = 300.0


class RootToken:
    """The token, and its predecessors as long as they are accepted."""

    def __init__(self, text: str, clock: Clock, file: Path | None = None) -> None:
        """Without a ``file`` the token stays the same."""
        self._clock = clock
        self._file = file
        self._text = text
        self._presented = text
        self._until: dict[str, float] = {}
        """Previous tokens, and until when each is accepted."""
        self._warned = ""

    def accepts(self, token: str) -> bool:
        """Whether this is the root token, or the previous one shortly after a change."""
        now = self._clock.now()
        known = [self._text, *(each for each, until in self._until.items() if now < until)]
        given = token.encode(errors="backslashreplace")
        return any(hmac.compare_digest(given, each.encode()) for each in known)

    def presented(self) -> str:
        """The token that this broker presents to others."""
        until = self._until.get(self._presented)
        if until is not None and self._clock.now() > until - OVERLAP_SECONDS / 2:
            self._presented = self._text
        return self._presented

    async def follow(self, changed: Callable[[], None]) -> None:
        """Read the file again and again; call ``changed`` when other tokens are accepted."""
        assert self._file is not None
        seen = self._text
        while True:
            await self._clock.sleep(_POLL_SECONDS)
            try:
                read = check_root((await asyncio.to_thread(self._file.read_text)).strip())
            except (OSError, UnicodeDecodeError, Refused) as error:
                self._warn(f"the root token stays the same: {self._file}: {error}")
            else:
                # Twice the same: not while the file is being written.
                if read == seen and read != self._text:
                    self._replace(read)
                    changed()
                seen = read
            if self._expire():
                changed()

    def _replace(self, text: str) -> None:
        self._until[self._text] = self._clock.now() + OVERLAP_SECONDS
        self._until.pop(text, None)
        self._text = text
        self._warned = ""
        _log.warning(
            "the root token has changed; the previous one is accepted for %d more seconds",
            OVERLAP_SECONDS,
        )

    def _expire(self) -> bool:
        self.presented()
        now = self._clock.now()
        over = [each for each, until in self._until.items() if now >= until]
        for each in over:
            del self._until[each]
        return bool(over)

    def _warn(self, text: str) -> None:
        if text != self._warned:
            self._warned = text
            _log.warning(text)
