"""JSON Schema: what is called readable is valid for jsonschema, and nothing is ever fetched."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from broker_containers.schemas.errors import InvalidPayload, InvalidSchema
from broker_containers.schemas.json_schema import JsonSchema
from tests.schemas.json_shapes import INTEGER, STRING, documents, fields, schemas, text

OLD = "http://json-schema.org/draft-07/schema#"


def unreadable(writer: Any, reader: Any) -> list[str]:
    return JsonSchema(text(reader)).unreadable(JsonSchema(text(writer)))


# ---- what can be read with what ----


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (fields(a=STRING), fields(a=STRING, b=INTEGER)),
        (fields("a", a=STRING), fields(a=STRING)),
        (fields("a", "b", a=STRING, b=STRING), fields("a", a=STRING)),
        (INTEGER, {"type": "number"}),
        (INTEGER, {"type": ["integer", "null"]}),
        (INTEGER, {"anyOf": [STRING, INTEGER]}),
        ({"type": ["integer", "string"]}, {"anyOf": [STRING, INTEGER]}),
        ({"anyOf": [STRING, INTEGER]}, {"type": ["integer", "string"]}),
        ({"oneOf": [STRING, INTEGER]}, {"oneOf": [STRING, INTEGER, {"type": "null"}]}),
        ({"enum": ["a", "b"]}, {"enum": ["a", "b", "c"]}),
        ({"enum": ["a", "b"]}, STRING),
        ({"const": 5}, {"type": "integer", "minimum": 5}),
        ({"type": "boolean"}, {"enum": [True, False]}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 1}),
        ({"type": "integer", "multipleOf": 6}, {"type": "integer", "multipleOf": 3}),
        ({"type": "string", "maxLength": 5}, {"type": "string", "maxLength": 9}),
        (
            {"$ref": "#/$defs/x", "$defs": {"x": fields(a=STRING)}},
            {"$ref": "#/$defs/y", "$defs": {"y": fields(a=STRING, b=STRING)}},
        ),
        ({"allOf": [fields("a", a=STRING), fields("b", b=STRING)]}, fields("a", "b", a=STRING)),
        ({"type": "array", "items": INTEGER}, {"type": "array", "items": {"type": "number"}}),
        ({"type": "array", "prefixItems": [INTEGER], "items": False}, {"maxItems": 1}),
        (fields(a=STRING), {"type": "object", "additionalProperties": STRING}),
        (fields(a=STRING), {**fields(a=STRING), "additionalProperties": False}),
        (True, True),
        (False, STRING),
        (STRING, {}),
    ],
)  # fmt: skip
def test_what_is_still_valid_is_readable(writer: Any, reader: Any) -> None:
    assert unreadable(writer, reader) == []


@pytest.mark.parametrize(
    ("writer", "reader", "why"),
    [
        (fields(a=STRING), fields(a=INTEGER), "a: string cannot be read as integer"),
        (fields(a=STRING), fields("a", a=STRING), "a: it is required and may be missing in data"),
        (fields(), fields("b", b=STRING), "b: it is required and may be missing in data"),
        (
            fields(a=fields(b=STRING)),
            fields(a=fields(b=INTEGER)),
            "a.b: string cannot be read as integer",
        ),
        (
            {**fields(a=STRING), "additionalProperties": True},
            fields(a=STRING, b=INTEGER),
            "b: string cannot be read as integer",
        ),
        (
            fields(a=STRING, b=STRING),
            {**fields(a=STRING), "additionalProperties": False},
            "b: it is not allowed",
        ),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, '"b" is not allowed'),
        (STRING, {"enum": ["a"]}, 'only ["a"] is read'),
        ({"type": "number"}, INTEGER, "number cannot be read as integer"),
        (INTEGER, {"type": "integer", "minimum": 0}, "minimum is stricter than in written data"),
        (STRING, {"type": "string", "pattern": "x"}, "pattern is stricter than in written data"),
        (STRING, {"not": {"type": "string"}}, "it may match what `not` excludes"),
        (
            INTEGER,
            {"oneOf": [INTEGER, {"type": "number"}]},
            "it may match several alternatives of oneOf",
        ),
        (
            {"type": "array", "items": STRING},
            {"type": "array", "items": INTEGER},
            "[]: string cannot be read as integer",
        ),
        (
            {"$ref": "#/$defs/x", "$defs": {"x": {**fields(a=STRING)}}},
            {"$ref": "#/$defs/x", "$defs": {"x": {**fields(a=INTEGER)}}},
            "a: string cannot be read as integer",
        ),
        ({"$schema": OLD}, {}, "the draft changes from draft-07 to"),
    ],
)  # fmt: skip
def test_what_breaks_is_told(writer: Any, reader: Any, why: str) -> None:
    assert any(reason.startswith(why) for reason in unreadable(writer, reader)), unreadable(
        writer, reader
    )


def test_schemas_that_contain_themselves_are_compared() -> None:
    def tree(leaf: Any) -> Any:
        inner = {"type": "array", "items": {"$ref": "#/$defs/tree"}}
        return {"$ref": "#/$defs/tree", "$defs": {"tree": fields(leaf=leaf, trees=inner)}}

    assert unreadable(tree(INTEGER), tree({"type": "number"})) == []
    assert unreadable(tree(STRING), tree(INTEGER)) == ["leaf: string cannot be read as integer"]


def test_schemas_that_would_take_too_long_to_compare_are_told_so() -> None:
    many = {"allOf": [{"anyOf": [{"minimum": n}, {"minimum": n + 1}]} for n in range(30)]}
    assert unreadable(many, {"minimum": 0}) == [
        "the schemas are too complex to compare: simplify them"
    ]


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(schemas(), schemas(), st.data())
def test_what_is_called_readable_is_valid_for_jsonschema(
    first: Any, second: Any, data: st.DataObject
) -> None:
    combined = data.draw(st.sampled_from([second, {"anyOf": [first, second]}, first]))
    if unreadable(first, combined):
        return
    for _ in range(5):
        document = data.draw(documents(first))
        if Draft202012Validator(first).is_valid(document):
            assert Draft202012Validator(combined).is_valid(document), (first, combined, document)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(schemas(2), st.data())
def test_small_changes_that_are_called_readable_are_valid(schema: Any, data: st.DataObject) -> None:
    changed = data.draw(changes(schema))
    if unreadable(schema, changed):
        return
    for _ in range(5):
        document = data.draw(documents(schema))
        if Draft202012Validator(schema).is_valid(document):
            assert Draft202012Validator(changed).is_valid(document), (schema, changed, document)


@st.composite
def changes(draw: st.DrawFn, schema: Any) -> Any:
    """The same schema with some keywords gone, some of their values changed."""
    if not isinstance(schema, dict) or draw(st.integers(0, 6)) == 0:
        return draw(schemas(1))
    changed: dict[str, Any] = {}
    for word, value in schema.items():
        match draw(st.integers(0, 4)), value:
            case 0, _:
                continue
            case 1, int() if not isinstance(value, bool) and word != "const":
                changed[word] = value + draw(st.integers(-1, 1))
            case _, dict() if word == "properties":
                changed[word] = {name: draw(changes(inner)) for name, inner in value.items()}
            case _, dict() if word in ("items", "additionalProperties"):
                changed[word] = draw(changes(value))
            case _, list() if word in ("anyOf", "oneOf", "prefixItems"):
                changed[word] = [draw(changes(inner)) for inner in value]
            case _:
                changed[word] = value
    return changed if not _negative(changed) else schema


def _negative(schema: dict[str, Any]) -> bool:
    """Lengths and counts can't be."""
    return schema.get("multipleOf") == 0 or any(
        isinstance(value, int) and value < 0
        for word, value in schema.items()
        if word.endswith(("Length", "Items", "Properties"))
    )


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(schemas())
def test_every_schema_reads_its_own_data(schema: Any) -> None:
    assert unreadable(schema, schema) == []
    if isinstance(schema, dict) and "oneOf" not in json.dumps(schema):
        remarked = {**schema, "title": "a remark"}
        assert unreadable(schema, remarked) == []
        assert unreadable(remarked, schema) == []


# ---- what is a schema ----


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        (b"{", "not JSON"),
        (b'{"minimum": 1e999}', "not JSON"),
        (b'{"minimum": NaN}', "not JSON"),
        (b'{"title": "\\ud800"}', "not JSON"),
        (b"[]", "an object, true or false"),
        (text({"type": "strong"}), "not a JSON Schema"),
        (text({"$ref": "#"}), "refers to itself"),
        (
            text({"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"not": {"$ref": "#"}}}}),
            "itself",
        ),
        (text({"$ref": "http://127.0.0.1:1/x.json"}), "is external"),
        (text({"$ref": "#/$defs/none"}), "has no target"),
        (text({"$ref": "#/title", "title": "x"}), "is not a schema"),
        (text({"properties": {"a": {"$id": "other"}}}), "only the whole schema"),
        (text({"$dynamicRef": "#x"}), "not supported"),
        (text({"$schema": "http://json-schema.org/draft-03/schema#"}), "too old"),
        (b'{"not":' * 3_000 + b"{}" + b"}" * 3_000, "nested|not JSON"),
    ],
)
def test_what_is_no_schema_is_refused_with_the_reason(definition: bytes, why: str) -> None:
    with pytest.raises(InvalidSchema, match=why):
        JsonSchema(definition)


@pytest.mark.parametrize("depth", [10, 20, 40, 45, 80, 95])
def test_a_deep_schema_is_compared_or_refused(depth: int) -> None:
    for opening, closing in ((b'{"not":', b"}"), (b'{"items":', b"}"), (b'{"anyOf":[', b"]}")):
        definition = opening * depth + b'{"type":"string"}' + closing * depth
        try:
            schema = JsonSchema(definition)
        except InvalidSchema:
            assert depth > 20
            continue
        other = JsonSchema(definition.replace(b"string", b"integer"))
        assert other.unreadable(schema) and schema.unreadable(other)
        with contextlib.suppress(InvalidPayload):
            schema.check(b"[" * depth + b"5" + b"]" * depth)


def test_properties_may_have_the_names_of_keywords() -> None:
    schema = JsonSchema(text({"properties": {"$ref": STRING, "pattern": {"type": "integer"}}}))
    schema.check(b'{"$ref": "(", "pattern": 4}')


# ---- payloads ----


def test_a_payload_is_checked_with_the_place_of_what_is_wrong() -> None:
    schema = JsonSchema(text(fields("a", a=fields(b=INTEGER))))
    schema.check(b'{"a": {"b": 1}, "more": null}')
    for payload, why in (
        (b"{}", "lacks the required property 'a'"),
        (b'{"a": {"b": "x"}}', r"at \$\.a\.b"),
        (b'{"a": ', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"NaN", "not JSON"),
        (b"[" * 100_000, "nested|not JSON"),
    ):
        with pytest.raises(InvalidPayload, match=why):
            schema.check(payload)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(schemas(), schemas(), st.data())
def test_payloads_are_judged_as_jsonschema_judges_them(
    schema: Any, other: Any, data: st.DataObject
) -> None:
    for document in (data.draw(documents(schema)), data.draw(documents(other))):
        try:
            JsonSchema(text(schema)).check(json.dumps(document).encode())
            accepted = True
        except InvalidPayload:
            accepted = False
        assert accepted is Draft202012Validator(schema).is_valid(document), (schema, document)


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ({"uniqueItems": True}, [1, True, 0, False, {"a": 1}, {"a": True}, "1"], [1, 1.0]),
        ({"uniqueItems": True}, [{"a": [1]}, {"a": [2]}], [{"a": 1, "b": 2}, {"b": 2, "a": 1}]),
        ({"enum": [1, {"a": [True]}]}, {"a": [True]}, {"a": [1]}),
        ({"const": False}, False, 0),
        ({"type": "integer"}, 2.0, 2.5),
        ({"multipleOf": 0.01}, 0.75, 0.751),
        ({"contains": INTEGER, "minContains": 2}, ["a", 1, 2], ["a", 1]),
        ({"contains": INTEGER, "maxContains": 1}, ["a", 1], [1, 2]),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 2}, {"a": 1}),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"b": 1}, {"a": 1}),
        ({"if": INTEGER, "then": {"minimum": 5}, "else": STRING}, 5, 4),
        ({"prefixItems": [STRING], "items": INTEGER}, ["a", 1], ["a", "b"]),
        ({"patternProperties": {"^x": INTEGER}, "additionalProperties": False}, {"x": 1}, {"y": 1}),
        ({"propertyNames": {"pattern": "^[a-z]+$"}}, {"abc": 1}, {"Abc": 1}),
        ({"anyOf": [fields(a=STRING)], "unevaluatedProperties": False}, {"a": "x"}, {"b": "x"}),
        ({"allOf": [{"prefixItems": [STRING]}], "unevaluatedItems": INTEGER}, ["a", 1], ["a", "b"]),
        ({"oneOf": [INTEGER, {"minimum": 5}]}, 4, 6),
        ({"$schema": "http://json-schema.org/draft-04/schema#",
          "minimum": 1, "exclusiveMinimum": True}, 2, 1),
        ({"$schema": OLD, "items": [STRING], "additionalItems": False}, ["a"], ["a", "b"]),
        ({"$schema": OLD, "dependencies": {"a": ["b"], "c": {"maxProperties": 1}}},
         {"c": 1}, {"c": 1, "d": 2}),
        ({"$schema": OLD, "$ref": "#/definitions/a", "type": "null", "definitions": {"a": STRING}},
         "a", None),
    ],
)  # fmt: skip
def test_each_keyword_accepts_and_refuses_what_the_standard_says(
    schema: Any, right: Any, wrong: Any
) -> None:
    made = JsonSchema(text(schema))
    made.check(json.dumps(right).encode())
    with pytest.raises(InvalidPayload):
        made.check(json.dumps(wrong).encode())


@pytest.mark.parametrize("payload", [b"1e999", b"9" * 400, b'{"\\ud800": 1}', b'"\\ud800"'])
def test_odd_values_are_valid_or_refused_in_words_that_can_be_sent(payload: bytes) -> None:
    for schema in (
        {"multipleOf": 0.5},
        {"multipleOf": 10**400},
        {"additionalProperties": STRING},
        {"type": "null"},
    ):
        words = ""
        try:
            JsonSchema(text(schema)).check(payload)
        except InvalidPayload as error:
            words = str(error)
        assert words.encode().decode() == words


def test_a_long_reason_is_cut() -> None:
    schema = JsonSchema(text(INTEGER))
    with pytest.raises(InvalidPayload) as caught:
        schema.check(json.dumps("x" * 100_000).encode())
    assert len(str(caught.value)) < 1_000
