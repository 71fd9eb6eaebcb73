"""Text from outside, made safe for terminals and logs."""

from __future__ import annotations

import logging
from typing import Final

_CONTROLS: Final = (*range(0x20), *range(0x7F, 0xA0))
_DIRECTIONS: Final = (0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""Characters that reorder or break lines."""
_ALL: Final = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (*_CONTROLS, *_DIRECTIONS)
}
_TEXT: Final = {code: text for code, text in _ALL.items() if chr(code) not in "\t\n"}
JSON_ESCAPES: Final = {code: f"\\u{code:04x}" for code in _ALL if code >= 0x7F}
"""For ``str.translate`` of JSON, whose meaning stays the same."""


def visible(text: str) -> str:
    """The text with control characters written as ``\\x1b``, except tabs and line ends.

    So what a message or a name contains cannot move the cursor, change colours or hide text.
    """
    return text if text.isascii() and text.isprintable() else text.translate(_TEXT)


class LogFormatter(logging.Formatter):
    """Escapes line ends, too, so that a name cannot add lines to the log."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return super().formatMessage(record).translate(_ALL)


def start_logging(level: str) -> None:
    """Log to standard error, one line per message; tracebacks follow theirs."""
    logging.basicConfig(level=level.upper())
    form = LogFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    for handler in logging.getLogger().handlers:
        handler.setFormatter(form)
