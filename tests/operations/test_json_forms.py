"""How typed values look in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from sulina.errors import Refused
from sulina.model import Delivery, Start
from sulina.operations.json_forms import Between
from sulina.operations.json_types import CLOSED, OMITTED, Count, Name, described_as, form_of
from sulina.operations.messages import NewMessage, StoredMessage
from sulina.operations.subscriptions import Position


@dataclass(frozen=True, slots=True)
class Inner:
    number: Count
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outer:
    name: Name
    inner: Inner | None
    delivery: Delivery
    absent: Annotated[str | None, OMITTED] = None


MESSAGE = Annotated[NewMessage, CLOSED]


@pytest.mark.parametrize(
    ("annotation", "value", "written"),
    [
        (str, "text", "text"),
        (Count, 7, 7),
        (float, 1.5, 1.5),
        (bool, True, True),
        (Any, {"a": [1]}, {"a": [1]}),
        (Delivery, Delivery.RELIABLE, "reliable"),
        (int | None, None, None),
        (Sequence[int], (1, 2), [1, 2]),
        (Mapping[str, int], {"a": 1}, {"a": 1}),
        (Inner, Inner(1, ("a",)), {"number": 1, "words": ["a"]}),
        (
            Outer,
            Outer("x", Inner(1), Delivery.RELIABLE),
            {"name": "x", "inner": {"number": 1, "words": []}, "delivery": "reliable"},
        ),
        (
            Outer,
            Outer("x", None, Delivery.RELIABLE, "here"),
            {"name": "x", "inner": None, "delivery": "reliable", "absent": "here"},
        ),
        (Position, Start.latest(), "latest"),
        (Position, Start.offset(3), {"offset": 3}),
        (Position, Start.time(5), {"time_us": 5}),
        (
            MESSAGE,
            NewMessage(b"\xff", b"k", {"a": "b"}, 1, 2),
            {
                "payload_base64": "/w==",
                "key": "k",
                "attributes": {"a": "b"},
                "schema_id": 1,
                "schema_version": 2,
            },
        ),
        (
            StoredMessage,
            StoredMessage(1, 2, "p", 3, {}, b"text"),
            {
                "offset": 1,
                "time_us": 2,
                "producer": "p",
                "sequence": 3,
                "attributes": {},
                "payload": "text",
            },
        ),
    ],
)
def test_a_value_is_read_as_it_was_written(annotation: Any, value: Any, written: Any) -> None:
    form = form_of(annotation)
    encoded = form.encode(value)
    assert encoded == written
    assert form.decode(encoded, "it") == value


@pytest.mark.parametrize(
    ("annotation", "value", "why"),
    [
        (str, 1, "it must be text, not 1"),
        (Name, "", "it is missing"),
        (Annotated[str, Between(0, 3)], "four", "at most 3 characters"),
        (Count, -1, "it must be a whole number from 0 to"),
        (Count, True, "it must be a whole number"),
        (Count, "1", "it must be a whole number"),
        (Count, 1 << 63, "it must be a whole number"),
        (bool, "yes", "it must be true or false"),
        (float, "1", "it must be a number"),
        (Delivery, "maybe", "it is one of reliable, non_reliable, not 'maybe'"),
        (Sequence[int], "text", "it must be a list"),
        (Sequence[int], [1, None], "it[1] must be a whole number"),
        (Annotated[Sequence[int], Between(1)], [], "it must have 1 to"),
        (Mapping[str, int], [], "it must be an object"),
        (Inner, {"words": []}, "it.number is missing"),
        (Inner, None, "it must be an object"),
        (Position, "now", "latest, earliest, an offset or a time, not 'now'"),
        (Position, {"offset": -1}, "it.offset must be a whole number"),
        (Position, {"offset": 1, "time_us": 1}, "latest, earliest"),
        (MESSAGE, {"payload": "a", "colour": "b"}, "no field 'colour': choose from attributes"),
        (MESSAGE, {"key": "a"}, "it.payload is missing"),
        (MESSAGE, {"payload": "a", "payload_base64": "YQ=="}, "choose one"),
        (MESSAGE, {"payload_base64": "%"}, "not Base64"),
        (MESSAGE, {"payload": "a", "attributes": {"n": 1}}, "it.attributes.n must be text, not 1"),
        (MESSAGE, "a", "it must be an object"),
        (MESSAGE, {"payload": "\ud800"}, "half of a surrogate pair"),
        (str, "\ud800", "half of a surrogate pair"),
    ],
)
def test_a_wrong_value_is_refused_with_a_reason(annotation: Any, value: Any, why: str) -> None:
    with pytest.raises(Refused) as refused:
        form_of(annotation).decode(value, "it")
    assert why in str(refused.value)


def test_a_long_wrong_value_is_quoted_in_part() -> None:
    with pytest.raises(Refused) as refused:
        form_of(Count).decode("x" * 100_000, "it")
    assert len(str(refused.value)) < 300


def test_fields_that_a_newer_broker_adds_are_ignored() -> None:
    assert form_of(Inner).decode({"number": 1, "new": 2}, "it") == Inner(1)


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (Count, "12", 12),
        (bool, "true", True),
        (bool, "", True),
        (bool, "0", False),
        (str, "a", "a"),
        (Position, "12", Start.offset(12)),
        (Annotated[int | None, Between()], "3", 3),
    ],
)
def test_a_text_from_a_url_is_read_as_its_type(annotation: Any, text: str, value: Any) -> None:
    assert form_of(annotation).parse(text, "it") == value


def test_schemas_say_what_is_decoded() -> None:
    named: dict[str, Any] = {}
    described = described_as(Annotated[Outer, "An example."])
    assert described.schema(named)["description"] == "An example."
    assert named["Outer"]["required"] == ["name", "inner", "delivery"]
    assert named["Outer"]["properties"]["delivery"]["enum"] == ["reliable", "non_reliable"]
    assert named["Inner"]["properties"]["number"] == {"type": "integer", "minimum": 0}
    assert form_of(Annotated[int | None, Between(0, 9)]).schema({}) == {
        "type": ["integer", "null"],
        "minimum": 0,
        "maximum": 9,
    }


def test_a_type_without_a_json_form_can_not_be_declared() -> None:
    with pytest.raises(TypeError, match="no JSON form"):
        form_of(object)
