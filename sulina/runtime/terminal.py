"""Text from outside, made safe for terminals and logs."""

from __future__ import annotations

from typing import Final

_CONTROLS: Final = (*range(0x20), *range(0x7F, 0xA0))
_DIRECTIONS: Final = (0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""Characters that reorder or break lines."""
LINE_ESCAPES: Final = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (*_CONTROLS, *_DIRECTIONS)
}
"""For ``str.translate`` of text that must stay on one line."""
_TEXT: Final = {code: text for code, text in LINE_ESCAPES.items() if chr(code) not in "\t\n"}
JSON_ESCAPES: Final = {code: f"\\u{code:04x}" for code in LINE_ESCAPES if code >= 0x7F}
"""For ``str.translate`` of JSON, whose meaning stays the same."""


def visible(text: str) -> str:
    """The text with control characters written as ``\\x1b``, except tabs and line ends.

    So what a message or a name contains cannot move the cursor, change colours or hide text.
    """
    return text if text.isascii() and text.isprintable() else text.translate(_TEXT)
