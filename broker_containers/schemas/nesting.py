"""How deep the JSON of a schema may go: libraries recurse, some of them in C."""

from __future__ import annotations

from typing import Any, Final

from broker_containers.schemas.errors import InvalidSchema

MAX_DEPTH: Final = 100


def check_nesting(value: Any) -> None:
    """Raises ``InvalidSchema`` for JSON that is nested too deeply."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise InvalidSchema(f"the schema is nested more than {MAX_DEPTH} levels deep: flatten it")
