"""The drafts of JSON Schema: their keywords, and the form that a schema of each must have."""

from __future__ import annotations

from typing import Any, Final

from broker_containers.schemas.errors import InvalidSchema

NEWEST: Final = "draft/2020-12"
_DRAFTS: Final = ("draft-04", "draft-06", "draft-07", "draft/2019-09", NEWEST)
_ALWAYS: Final = frozenset((
    "$ref", "additionalProperties", "allOf", "anyOf", "enum", "items", "maxItems", "maxLength",
    "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum", "multipleOf",
    "not", "oneOf", "pattern", "patternProperties", "properties", "required", "type", "uniqueItems",
))  # fmt: skip
_SINCE_06: Final = _ALWAYS | {
    "const", "contains", "exclusiveMaximum", "exclusiveMinimum", "propertyNames",
}  # fmt: skip
_SINCE_2019: Final = _SINCE_06 | {
    "dependentRequired", "dependentSchemas", "if", "unevaluatedItems", "unevaluatedProperties",
}  # fmt: skip
KEYWORDS: Final[dict[str, frozenset[str]]] = {
    "draft-04": _ALWAYS | {"additionalItems", "dependencies"},
    "draft-06": _SINCE_06 | {"additionalItems", "dependencies"},
    "draft-07": _SINCE_06 | {"additionalItems", "dependencies", "if"},
    "draft/2019-09": _SINCE_2019 | {"additionalItems"},
    NEWEST: _SINCE_2019 | {"prefixItems"},
}
"""What each draft checks. ``then`` and ``else`` belong to ``if``, other words to the word before
them, as in ``minContains``."""


def draft_of(root: Any) -> str:
    """The draft that a schema names, or the newest. Raises ``InvalidSchema`` for draft 3."""
    named = root.get("$schema") if isinstance(root, dict) else None
    if isinstance(named, str) and "/draft-03/" in named:
        raise InvalidSchema("draft 3 of JSON Schema is too old: use draft 4 or newer")
    if not isinstance(named, str):
        return NEWEST
    return next((draft for draft in _DRAFTS if f"/{draft}/schema" in named), NEWEST)


def form_of(draft: str) -> dict[str, Any]:
    """A schema of the newest draft that every schema of ``draft`` matches."""
    schema: dict[str, Any] = {"$ref": "#"}
    schemas = {"type": "array", "minItems": 1, "items": schema}
    named = {"type": "object", "additionalProperties": schema}
    text = {"type": "string"}
    texts = {"type": "array", "items": text, "uniqueItems": True}
    count = {"type": "integer", "minimum": 0}
    number: dict[str, Any] = {"type": "number"}
    types = {"enum": ["array", "boolean", "integer", "null", "number", "object", "string"]}
    words: dict[str, Any] = {
        **dict.fromkeys(("$comment", "$id", "$ref", "$schema", "description", "title"), text),
        **dict.fromkeys(("format", "pattern"), text),
        **dict.fromkeys(("additionalProperties", "not"), schema),
        **dict.fromkeys(("allOf", "anyOf", "oneOf"), schemas),
        **dict.fromkeys(("$defs", "definitions", "patternProperties", "properties"), named),
        **dict.fromkeys(("maxItems", "maxLength", "maxProperties"), count),
        **dict.fromkeys(("minItems", "minLength", "minProperties"), count),
        **dict.fromkeys(("maximum", "minimum"), number),
        "enum": {"type": "array"},
        "items": {"if": {"type": "array"}, "then": schemas, "else": schema},
        "multipleOf": {"type": "number", "exclusiveMinimum": 0},
        "required": texts,
        "type": {
            "if": {"type": "array"},
            "then": {"items": types, "minItems": 1, "uniqueItems": True},
            "else": types,
        },
        "uniqueItems": {"type": "boolean"},
    }
    if draft == "draft-04":
        flag = {"type": "boolean"}
        words |= {"exclusiveMaximum": flag, "exclusiveMinimum": flag}
        words |= {"enum": {"type": "array", "minItems": 1}, "id": text}
    else:
        words |= dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum"), number)
        words |= dict.fromkeys(("contains", "propertyNames"), schema)
    keywords = KEYWORDS[draft]
    if "additionalItems" in keywords:
        words["additionalItems"] = schema
    if "dependencies" in keywords:
        either = {"if": {"type": "array"}, "then": texts, "else": schema}
        words["dependencies"] = {"type": "object", "additionalProperties": either}
    if "if" in keywords:
        words |= dict.fromkeys(("if", "then", "else"), schema)
    if "unevaluatedItems" in keywords:
        words |= dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"), schema)
        words |= dict.fromkeys(("maxContains", "minContains"), count)
        words["dependentRequired"] = {"type": "object", "additionalProperties": texts}
        words["dependentSchemas"] = named
    if "prefixItems" in keywords:
        words |= {"items": schema, "prefixItems": schemas}
    return {"type": ["object", "boolean"], "properties": words}
