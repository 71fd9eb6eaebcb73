"""Keeps what clients of a gRPC server can cause out of its log: at most one short line at a time.

gRPC logs a traceback for each message that cannot be decoded, and for each client that disconnects
during a call.
"""

from __future__ import annotations

import logging
from typing import Final

_SECONDS: Final = 10.0


class _ShortLines(logging.Filter):
    """Limits the rate, by the times in the records, and drops the tracebacks of bad messages."""

    def __init__(self) -> None:
        super().__init__()
        self._last = float("-inf")
        self._dropped = 0

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if "ExecuteBatchError" in text:  # a client disconnected during a call
            return False
        if record.levelno < logging.ERROR:
            return True
        if 0 <= record.created - self._last < _SECONDS:
            self._dropped += 1
            return False
        more = f" ({self._dropped} further errors not logged)" if self._dropped else ""
        record.msg, record.args = "%s%s", (text[:300], more)
        if "[DecodeError]" in text:  # the client's mistake; other tracebacks show one of ours
            record.exc_info = record.exc_text = None
        self._last, self._dropped = record.created, 0
        return True


_FILTER: Final = _ShortLines()


def shorten_grpc_log() -> None:
    """Call before a gRPC server starts; further calls change nothing."""
    logging.getLogger("grpc._cython.cygrpc").addFilter(_FILTER)
