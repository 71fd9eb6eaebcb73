"""JSON Schema, with a bound on the work that a schema or a payload can cause.

A payload is one JSON text. References must stay within the schema: nothing is ever fetched.
``format`` is an annotation and not checked, as the standard says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from broker_containers.schemas import json_comparison
from broker_containers.schemas.errors import InvalidPayload, InvalidSchema
from broker_containers.schemas.format import (
    canonical_json,
    check_nesting,
    fingerprint_of,
    json_of,
)
from broker_containers.schemas.json_drafts import KEYWORDS, NEWEST, draft_of, form_of
from broker_containers.schemas.json_parts import (
    Node,
    Parts,
    all_schemas,
    patterns_of,
    refers_to_itself,
)
from broker_containers.schemas.json_validation import JsonValidation
from broker_containers.schemas.patterns import unsupported
from broker_containers.schemas.steps import spend

_REFERENCES = ("$dynamicRef", "$recursiveRef")


class JsonSchema:
    """A schema of its stated draft, or of 2020-12. Two are equal if their JSON is."""

    compiled = None

    def __init__(self, definition: bytes) -> None:
        """Raises ``InvalidSchema``, and ``TooManySteps``."""
        root = json_of(definition, "JSON Schema")
        if not isinstance(root, dict | bool):
            raise InvalidSchema("a JSON Schema must be an object, true or false")
        check_nesting(root)
        draft = draft_of(root)
        try:
            problem = _form(draft).problem(root)
        except RecursionError:
            raise InvalidSchema("the schema is nested too deeply: flatten it") from None
        if problem is not None:
            raise InvalidSchema(f"not a JSON Schema: {_short(problem.why)} at {problem.path}")
        self.parts = Parts(root, draft)
        _check(self.parts)
        self.unchecked = tuple(_unchecked(self.parts))
        self._validation = JsonValidation(self.parts, KEYWORDS[draft])
        self.fingerprint = fingerprint_of(canonical_json(root))

    def holds(self, node: Node, value: Any) -> bool:
        """Whether a value matches a subschema of this schema. Raises ``TooManySteps``."""
        return self._validation.of(node)(value) is None

    def unreadable(self, writer: JsonSchema) -> list[str]:
        return json_comparison.unreadable(writer, self)

    def check(self, payload: bytes) -> None:
        try:
            problem = self._validation.problem(json.loads(payload, parse_constant=_no_constant))
        except RecursionError:
            raise InvalidPayload("the payload is nested too deeply to be checked") from None
        except (ValueError, ArithmeticError) as error:
            raise InvalidPayload(
                f"the payload is not JSON ({_short(str(error))}), and its schema is JSON Schema"
            ) from None
        if problem is not None:
            raise InvalidPayload(
                f"the payload does not match its schema: {_short(problem.why)} "
                f"at {_short(problem.path)}"
            )


@cache
def _form(draft: str) -> JsonValidation:
    return JsonValidation(Parts(form_of(draft), NEWEST), KEYWORDS[NEWEST])


def _unchecked(parts: Parts) -> Iterator[str]:
    for node in all_schemas(parts):
        for pattern in patterns_of(node):
            spend()
            why = unsupported(pattern)
            if why is not None:
                yield f"the pattern {_short(pattern)!r} cannot be run ({_short(why)})"


def _check(parts: Parts) -> None:
    """Raise ``InvalidSchema`` for what could not be checked on the first message."""
    for node in all_schemas(parts):
        for word in _REFERENCES:
            if word in node:
                raise InvalidSchema(f"{word} is not supported here: use $ref with a JSON pointer")
        if node is not parts.root and ("$id" in node or ("id" in node and parts.old)):
            raise InvalidSchema("only the whole schema may have an $id: remove the inner ones")
    if refers_to_itself(parts):
        raise InvalidSchema("a schema refers to itself endlessly: nest the reference deeper")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _short(text: str) -> str:
    # A payload may contain unpaired surrogates, which cannot be sent.
    clean = text[:200].encode("utf-8", "replace").decode()
    return clean if len(text) <= 200 else f"{clean}..."
