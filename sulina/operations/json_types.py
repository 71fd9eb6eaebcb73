"""From type annotations to JSON forms.

``form_of`` reads an annotation. It knows text, numbers, booleans, bytes, enumerations of text,
dataclasses, tuples and sequences, mappings from text, ``X | None`` and ``Any``. ``Annotated`` adds
a description (a plain string), ``Between``, ``OMITTED``, ``CLOSED``, or a form of one's own.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from sulina.operations.json_forms import (
    Between,
    BytesForm,
    ChoiceForm,
    Described,
    FlagForm,
    FloatForm,
    JsonForm,
    ListForm,
    MapForm,
    NullForm,
    OptionalForm,
    RecordForm,
    TextForm,
    WholeForm,
)


class _Marker:
    """What ``Annotated`` can say about a type."""


OMITTED: Final = _Marker()
"""The field is left out of the JSON object while it has its default value."""
CLOSED: Final = _Marker()
"""Unknown fields of the dataclass are refused; otherwise they are ignored."""
Count = Annotated[int, Between()]
Name = Annotated[str, Between(1)]
TopicText = Annotated[str, Between(1), "The topic's name, as /namespace/topic."]


@lru_cache(maxsize=1024)
def described_as(annotation: Any) -> Described:
    """What a type annotation says. Raises ``TypeError`` for a type without a JSON form."""
    kind, extras = annotation, []
    if get_origin(annotation) is Annotated:
        kind, *extras = get_args(annotation)
    description = next((each for each in reversed(extras) if isinstance(each, str)), "")
    bounds = next((each for each in extras if isinstance(each, Between)), None)
    form = next((each for each in extras if isinstance(each, JsonForm)), None)
    binary = kind in (bytes, bytes | None)
    if binary:
        form = BytesForm()
    elif form is None:
        form = _form(kind, bounds, closed=CLOSED in extras)
    return Described(form, description, OMITTED in extras, binary)


def form_of(annotation: Any) -> JsonForm:
    """The form of a type. Raises ``TypeError`` for a type that has none."""
    return described_as(annotation).form


def _form(kind: Any, bounds: Between | None, *, closed: bool = False) -> JsonForm:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        some = [each for each in inner if each is not type(None)]
        if len(some) == 1:
            return OptionalForm(_form(some[0], bounds) if bounds else form_of(some[0]))
    elif origin in (tuple, Sequence, list):
        return ListForm(form_of(inner[0]), bounds or Between())
    elif origin in (Mapping, dict):
        return MapForm(form_of(inner[1]))
    elif kind is Any:
        return JsonForm()
    elif kind in (None, type(None)):
        return NullForm()
    elif kind is bool:
        return FlagForm()
    elif kind is int:
        return WholeForm(bounds)
    elif kind is float:
        return FloatForm()
    elif kind is str:
        return TextForm(bounds or Between())
    elif isinstance(kind, type) and issubclass(kind, StrEnum):
        return ChoiceForm(kind)
    elif is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind, include_extras=True)
        described = {each.name: described_as(hints[each.name]) for each in fields(kind)}
        return RecordForm(kind, described, closed=closed)
    raise TypeError(f"{kind!r} has no JSON form")


def plain(value: Any) -> Any:
    """A result as JSON has it: dataclasses become objects, also within tuples and mappings."""
    if is_dataclass(value) and not isinstance(value, type):
        return form_of(type(value)).encode(value)
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    return value
