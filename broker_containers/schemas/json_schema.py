"""JSON Schema, using the library jsonschema.

A payload is one JSON text. References must stay within the schema: nothing is ever fetched.
``format`` is an annotation and not checked, as the standard says.
"""

from __future__ import annotations

import json
import re
from typing import Any

from broker_containers.schemas import json_comparison
from broker_containers.schemas.errors import InvalidPayload, InvalidSchema
from broker_containers.schemas.format import (
    canonical_json,
    check_nesting,
    fingerprint_of,
    json_of,
    lacking,
)
from broker_containers.schemas.json_parts import (
    Node,
    Parts,
    all_schemas,
    patterns_of,
    refers_to_itself,
)

_REFERENCES = ("$dynamicRef", "$recursiveRef")


class JsonSchema:
    """A schema of its stated draft, or of 2020-12. Two are equal if their JSON is."""

    compiled = None

    def __init__(self, definition: bytes) -> None:
        """Raises ``InvalidSchema``."""
        try:
            import jsonschema
            from referencing import Registry
        except ImportError:
            raise lacking("jsonschema", "JSON Schema") from None
        root = json_of(definition, "JSON Schema")
        if not isinstance(root, dict | bool):
            raise InvalidSchema("a JSON Schema must be an object, true or false")
        check_nesting(root)
        kind = jsonschema.validators.validator_for(root, jsonschema.Draft202012Validator)
        if "draft-03" in str(kind.META_SCHEMA.get("id")):
            raise InvalidSchema("draft 3 of JSON Schema is too old: use draft 4 or newer")
        try:
            if isinstance(root, dict):
                kind.check_schema(root)
        except jsonschema.SchemaError as error:
            raise InvalidSchema(
                f"not a JSON Schema: {_short(error.message)} at {error.json_path}"
            ) from None
        except RecursionError:
            raise InvalidSchema("the schema is nested too deeply: flatten it") from None
        self.parts = Parts(root, str(kind.META_SCHEMA.get("$schema", kind.META_SCHEMA.get("id"))))
        _check(self.parts)
        # An empty registry: the library's default would fetch unknown references.
        self._validator = kind(root, registry=Registry())
        self.fingerprint = fingerprint_of(canonical_json(root))

    def holds(self, node: Node, value: Any) -> bool:
        """Whether a value matches a subschema of this schema."""
        return bool(self._validator.evolve(schema=node).is_valid(value))

    def unreadable(self, writer: JsonSchema) -> list[str]:
        return json_comparison.unreadable(writer, self)

    def check(self, payload: bytes) -> None:
        try:
            value = json.loads(payload, parse_constant=_no_constant)
            error = next(self._validator.iter_errors(value), None)
        except RecursionError:
            raise InvalidPayload("the payload is nested too deeply to be checked") from None
        except (ValueError, ArithmeticError) as problem:
            raise InvalidPayload(
                f"the payload is not JSON ({_short(str(problem))}), and its schema is JSON Schema"
            ) from None
        if error is not None:
            raise InvalidPayload(
                f"the payload does not match its schema: {_short(error.message)} "
                f"at {_short(error.json_path)}"
            )


def _check(parts: Parts) -> None:
    """Raise ``InvalidSchema`` for what would make the library fail on the first message."""
    for node in all_schemas(parts):
        for word in _REFERENCES:
            if word in node:
                raise InvalidSchema(f"{word} is not supported here: use $ref with a JSON pointer")
        if node is not parts.root and ("$id" in node or ("id" in node and parts.old)):
            raise InvalidSchema("only the whole schema may have an $id: remove the inner ones")
        for pattern in patterns_of(node):
            try:
                re.compile(pattern)
            except re.error as error:
                raise InvalidSchema(f"the pattern {pattern!r} cannot be used: {error}") from None
    if refers_to_itself(parts):
        raise InvalidSchema("a schema refers to itself endlessly: nest the reference deeper")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _short(text: str) -> str:
    # A payload may contain unpaired surrogates, which cannot be sent.
    clean = text[:200].encode("utf-8", "replace").decode()
    return clean if len(text) <= 200 else f"{clean}..."
