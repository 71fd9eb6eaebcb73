"""The interface of a schema language, and what the languages share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Final, Protocol

from broker_containers.schemas.errors import InvalidSchema

MAX_DEFINITION: Final = 256 * 1024
"""Maximum size of a definition, and of its compiled form: a version is one metadata value."""
MAX_DEPTH: Final = 100
"""Levels of nesting in a schema: libraries recurse, some of them in C."""


class Format(Protocol):
    """A parsed schema."""

    @property
    def fingerprint(self) -> str:
        """Equal for schemas that are known to mean the same."""
        ...

    @property
    def compiled(self) -> bytes | None:
        """What to store with the definition, if it was compiled."""
        ...

    @property
    def unchecked(self) -> Sequence[str]:
        """What the schema requires and this broker does not check, one clause per item."""
        ...

    def unreadable(self, writer: Any) -> list[str]:
        """Why data of ``writer``, a schema of the same type, cannot be read with this schema.

        One sentence per problem; empty if all data can be read. What cannot be proven readable is
        a problem.
        """
        ...

    def check(self, payload: bytes) -> None:
        """Raise ``InvalidPayload`` unless this is data of the schema, or ``TooManySteps``."""
        ...


def fingerprint_of(canonical: bytes) -> str:
    """A fingerprint in Danube's format."""
    return f"sha256:{hashlib.sha256(canonical).hexdigest()}"


def canonical_json(value: Any) -> bytes:
    """Equal bytes for equal JSON values, regardless of whitespace and key order.

    Raises ``ValueError`` for values that JSON cannot represent.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def json_of(definition: bytes, what: str) -> Any:
    """A definition in JSON. Raises ``InvalidSchema``."""
    try:
        value = json.loads(definition, parse_constant=_no_constant)
        canonical_json(value)  # rejects infinite numbers and unpaired surrogates
        return value
    except (ValueError, RecursionError) as error:
        raise InvalidSchema(f"the {what} is not JSON ({error}): check its quotes and commas") from (
            None
        )


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def lacking(package: str, what: str) -> InvalidSchema:
    """The error for a library that is not installed on this broker."""
    return InvalidSchema(
        f"this broker cannot handle {what}: {package} is not installed; "
        "install sulina[schemas] there"
    )


def check_nesting(value: Any) -> None:
    """Raise ``InvalidSchema`` for JSON that is nested too deeply."""
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
    raise InvalidSchema(f"the schema is nested more than {MAX_DEPTH} levels: flatten it")
