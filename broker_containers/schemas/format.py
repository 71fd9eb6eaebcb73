"""What every language of schemas must know, whatever the language is."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, Protocol

from broker_containers.schemas.errors import InvalidSchema

MAX_DEFINITION: Final = 256 * 1024
"""Bytes of a definition, and of what a compiler makes of it: one version is one metadata value."""
MAX_DEPTH: Final = 100
"""Levels of nesting in a schema: libraries recurse, some of them in C."""


class Format(Protocol):
    """A schema that was understood."""

    @property
    def fingerprint(self) -> str:
        """The same for schemas that mean the same as far as can be told."""
        ...

    @property
    def compiled(self) -> bytes | None:
        """What is to be stored beside the definition, if its meaning took a compiler."""
        ...

    def unreadable(self, writer: Any) -> list[str]:
        """What of the data of ``writer``, a schema of the same type, could not be read with this.

        A sentence each; nothing if everything can be. What can't be shown to be readable is told.
        """
        ...

    def check(self, payload: bytes) -> None:
        """Raises ``InvalidPayload`` if this is no data of the schema."""
        ...


def fingerprint_of(canonical: bytes) -> str:
    """As Danube writes fingerprints."""
    return f"sha256:{hashlib.sha256(canonical).hexdigest()}"


def canonical_json(value: Any) -> bytes:
    """The same bytes for equal JSON values, whatever their spaces and the order of their keys.

    Raises ``ValueError`` for what JSON has no text for.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def json_of(definition: bytes, what: str) -> Any:
    """A definition that is JSON. Raises ``InvalidSchema``."""
    try:
        value = json.loads(definition, parse_constant=_no_constant)
        canonical_json(value)  # numbers without an end and half characters are not JSON either
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
        f"this broker can't work with {what}: {package} is not installed there; "
        "install sulina[schemas]"
    )


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
