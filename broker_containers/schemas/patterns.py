"""The regular expressions of schemas, which run on RE2: in linear time, whatever the text is.

RE2 has neither backreferences nor lookaround, and repeats at most 1,000 times. As JSON Schema says,
and unlike Python's, its ``\\d``, ``\\w`` and ``\\s`` are ASCII and ``$`` matches only at the end.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from broker_containers.schemas.format import lacking
from broker_containers.schemas.steps import spend

_KEPT: Final = 256
_MEMORY: Final = 1 << 20
"""Bytes that RE2 may use for one pattern."""
_UNITS_PER_STEP: Final = 2_000
"""Characters of a text times instructions of a pattern."""
_ESCAPED: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


@lru_cache(_KEPT)
def _compiled(pattern: str) -> tuple[Any, int] | str:
    """The compiled pattern and its size, or why RE2 does not run it."""
    try:
        import re2
    except ImportError:
        raise lacking("google-re2", "JSON Schema") from None
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MEMORY
    # RE2 writes \uXXXX differently. With bytes, it needs no conversion of positions.
    written = _ESCAPED.sub(lambda found: f"\\x{{{found[1]}}}" if found[1] else found[0], pattern)
    try:
        made = re2.compile(written.encode("utf-8", "surrogatepass"), options)
    except re2.error as error:
        why = error.args[0] if error.args else error
        return why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
    return made, made.programsize


def unsupported(pattern: str) -> str | None:
    """Why RE2 cannot run a pattern; None if it can."""
    found = _compiled(pattern)
    return found if isinstance(found, str) else None


def matches(pattern: str, text: str) -> bool | None:
    """Whether a pattern matches anywhere in a text; None if RE2 cannot run it.

    Counts steps by the length of both.
    """
    found = _compiled(pattern)
    if isinstance(found, str):
        return None
    compiled, size = found
    spend(1 + len(text) * size // _UNITS_PER_STEP)
    return compiled.search(text.encode("utf-8", "surrogatepass")) is not None
