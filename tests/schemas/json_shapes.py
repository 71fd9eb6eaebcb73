"""Schemas that tests share, random JSON Schemas, and documents that match them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from("abc")
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-4, 4),
    st.sampled_from([0.5, 1.5, -2.5, 2.0]),
    st.text("xyz", max_size=4),
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=5,
)
SMALL = st.integers(0, 3)


def some(draw: st.DrawFn, **keywords: st.SearchStrategy[Any]) -> dict[str, Any]:
    """Some of the keywords."""
    return {word: draw(value) for word, value in keywords.items() if draw(st.integers(0, 2)) == 0}


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> Any:
    kinds = ["integer", "number", "string", "several", "enum", "const", "true", "boolean", "null"]
    deeper = ["object", "object", "object", "array", "tuple", "anyOf", "oneOf", "allOf", "not"]
    kind = draw(st.sampled_from(kinds + deeper if depth else kinds))
    inner = schemas(depth - 1) if depth else st.just(True)
    match kind:
        case "integer" | "number":
            limits = st.integers(-3, 3)
            return {
                "type": kind,
                **some(
                    draw, minimum=limits, maximum=limits, exclusiveMinimum=limits,
                    exclusiveMaximum=limits, multipleOf=st.integers(1, 3),
                ),
            }  # fmt: skip
        case "string":
            words = some(draw, minLength=SMALL, maxLength=SMALL, pattern=st.sampled_from("xy"))
            return {"type": "string", **words}
        case "several":
            types = st.sampled_from(["null", "boolean", "integer", "number", "string", "object"])
            return {"type": draw(st.lists(types, min_size=1, max_size=3, unique=True))}
        case "enum":
            return {"enum": draw(st.lists(SCALARS, min_size=1, max_size=4))}
        case "const":
            return {"const": draw(SCALARS)}
        case "true":
            return draw(st.sampled_from([True, {}]))
        case "boolean" | "null":
            return {"type": kind}
        case "object":
            words = some(
                draw, additionalProperties=st.one_of(st.booleans(), inner),
                required=st.lists(NAMES, unique=True, max_size=2),
                patternProperties=st.dictionaries(st.sampled_from(["a", "b|c"]), inner, max_size=1),
                minProperties=SMALL, maxProperties=SMALL,
                propertyNames=st.sampled_from([{"pattern": "a|b"}, {"maxLength": 1}]),
            )  # fmt: skip
            return {"type": "object", "properties": draw(st.dictionaries(NAMES, inner)), **words}
        case "array":
            words = some(
                draw, minItems=SMALL, maxItems=SMALL, uniqueItems=st.booleans(), contains=inner
            )
            return {"type": "array", "items": draw(inner), **words}
        case "tuple":
            words = some(draw, items=st.one_of(st.booleans(), inner), minItems=SMALL)
            first = draw(st.lists(inner, min_size=1, max_size=2))
            return {"type": "array", "prefixItems": first, **words}
        case "not":
            return {"not": draw(inner), **draw(schemas(0).filter(lambda s: isinstance(s, dict)))}
    return {kind: draw(st.lists(inner, min_size=1, max_size=2))}


@st.composite
def documents(draw: st.DrawFn, schema: Any) -> Any:
    """Something that may be valid: in objects, only properties that the schema speaks of."""
    if isinstance(schema, bool) or not schema:
        return draw(ANYTHING)
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return draw(documents(draw(st.sampled_from(schema[word]))))
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        kind = draw(st.sampled_from(kind))
    match kind:
        case "null":
            return None
        case "boolean":
            return draw(st.booleans())
        case "integer":
            return draw(st.integers(-6, 6))
        case "number":
            return draw(st.one_of(st.integers(-6, 6), st.sampled_from([0.5, -1.5, 2.0])))
        case "string":
            return draw(st.text("xyz", max_size=4))
        case "array":
            length = draw(st.integers(schema.get("minItems", 0), 4))
            first = schema.get("prefixItems", [])
            rest = schema.get("items", True)
            return [
                draw(documents(first[index] if index < len(first) else rest))
                for index in range(length)
            ]
        case "object":
            return draw(_objects(schema))
    return draw(ANYTHING)


@st.composite
def _objects(draw: st.DrawFn, schema: Any) -> dict[str, Any]:
    named = dict(schema.get("properties", {}))
    patterns = schema.get("patternProperties", {})
    others = schema.get("additionalProperties")
    found: dict[str, Any] = {}
    for name in "abc":
        wanted = named.get(name)
        if wanted is None:
            wanted = next((inner for word, inner in patterns.items() if name in word), others)
        if wanted is None and name in schema.get("required", ()):
            wanted = True
        if wanted is None and not named and not patterns:
            wanted = True  # it speaks of none
        if wanted is not None and (name in schema.get("required", ()) or draw(st.booleans())):
            found[name] = draw(documents(wanted))
    return found


def text(schema: Any) -> bytes:
    return json.dumps(schema).encode()


def fields(*required: str, **properties: Any) -> dict[str, Any]:
    """A JSON Schema of an object."""
    return {"type": "object", "properties": properties, "required": list(required)}


def record(*members: dict[str, Any], name: str = "Order") -> dict[str, Any]:
    """An Avro record."""
    return {"type": "record", "name": name, "fields": list(members)}


STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NAME = fields(name=STRING)
NAME_AND_AGE = fields(name=STRING, age=INTEGER)
NAME_AS_NUMBER = fields(name=INTEGER)
