"""How typed values look in JSON: one form per type encodes, decodes and describes it.

``form_of`` reads a type annotation. It knows text, numbers, booleans, enumerations of text,
dataclasses, tuples and sequences, mappings from text, ``X | None`` and ``Any``. ``Annotated`` adds
a description (a plain string), ``Between``, ``OMITTED``, or a form of one's own.
"""

from __future__ import annotations

import types
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from sulina.errors import Refused

Schema = dict[str, Any]
LARGEST: Final = (1 << 63) - 1
_LONGEST_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Between:
    """The range of a number, or of the length of a text or list."""

    low: int = 0
    high: int = LARGEST


class _Omitted:
    """Marks a field of a dataclass that is left out of the JSON object while it is None."""


OMITTED: Final = _Omitted()
Count = Annotated[int, Between()]
Name = Annotated[str, Between(1)]
TopicText = Annotated[str, Between(1), "The topic's name, as /namespace/topic."]


class JsonForm(ABC):
    """How values of one type look in JSON."""

    @abstractmethod
    def encode(self, value: Any) -> Any:
        """The JSON value of a typed one."""

    @abstractmethod
    def decode(self, value: Any, name: str) -> Any:
        """The typed value of a JSON one called ``name``. Raises ``Refused``."""

    @abstractmethod
    def schema(self, named: dict[str, Schema]) -> Schema:
        """The JSON Schema; those of dataclasses are added to ``named`` and referred to."""

    def parse(self, text: str, name: str) -> Any:
        """The typed value of a text from a URL. Raises ``Refused``."""
        return self.decode(text, name)


def shown(value: Any) -> str:
    """A wrong value as error messages quote it: never longer than a line."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


class AnyForm(JsonForm):
    """Whatever JSON can hold, unchanged."""

    def encode(self, value: Any) -> Any:
        return value

    def decode(self, value: Any, name: str) -> Any:
        return value

    def schema(self, named: dict[str, Schema]) -> Schema:
        return {}


class NullForm(AnyForm):
    """Nothing: written as an empty object."""

    def encode(self, value: Any) -> Any:
        return {}

    def decode(self, value: Any, name: str) -> Any:
        return None

    def schema(self, named: dict[str, Schema]) -> Schema:
        return {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class TextForm(JsonForm):
    """Text."""

    bounds: Between = Between()

    def encode(self, value: Any) -> Any:
        return value

    def decode(self, value: Any, name: str) -> Any:
        if not isinstance(value, str):
            raise Refused(f"{name} must be text, not {shown(value)}")
        if not value and self.bounds.low:
            raise Refused(f"{name} is missing")
        if len(value) > self.bounds.high:
            raise Refused(f"{name} must have at most {self.bounds.high} characters")
        return value

    def schema(self, named: dict[str, Schema]) -> Schema:
        found: Schema = {"type": "string"}
        if self.bounds.low:
            found["minLength"] = self.bounds.low
        if self.bounds.high != LARGEST:
            found["maxLength"] = self.bounds.high
        return found


@dataclass(frozen=True, slots=True)
class WholeForm(JsonForm):
    """A whole number."""

    bounds: Between | None = None

    def encode(self, value: Any) -> Any:
        return value

    def decode(self, value: Any, name: str) -> Any:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if whole and (self.bounds is None or self.bounds.low <= value <= self.bounds.high):
            return value
        where = "" if self.bounds is None else f" from {self.bounds.low} to {self.bounds.high}"
        raise Refused(f"{name} must be a whole number{where}, not {shown(value)}")

    def parse(self, text: str, name: str) -> Any:
        if text.isascii() and text.isdecimal() and len(text) <= len(str(LARGEST)):
            return self.decode(int(text), name)
        raise Refused(f"{name} must be a whole number, not {shown(text)}")

    def schema(self, named: dict[str, Schema]) -> Schema:
        found: Schema = {"type": "integer"}
        if self.bounds is not None:
            found["minimum"] = self.bounds.low
            if self.bounds.high != LARGEST:
                found["maximum"] = self.bounds.high
        return found


class FloatForm(AnyForm):
    """A number."""

    def decode(self, value: Any, name: str) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        raise Refused(f"{name} must be a number, not {shown(value)}")

    def schema(self, named: dict[str, Schema]) -> Schema:
        return {"type": "number"}


class FlagForm(AnyForm):
    """True or false."""

    _words: Final = {"true": True, "1": True, "": True, "false": False, "0": False}

    def decode(self, value: Any, name: str) -> Any:
        if not isinstance(value, bool):
            raise Refused(f"{name} must be true or false, not {shown(value)}")
        return value

    def parse(self, text: str, name: str) -> Any:
        return self.decode(self._words.get(text.lower(), text), name)

    def schema(self, named: dict[str, Schema]) -> Schema:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class ChoiceForm(JsonForm):
    """A member of an enumeration of text; upper and lower case are the same."""

    kind: type[StrEnum]

    def encode(self, value: Any) -> Any:
        return value.value if isinstance(value, StrEnum) else value

    def decode(self, value: Any, name: str) -> Any:
        wanted = str(value).casefold()
        for item in self.kind:
            if item.value.casefold() == wanted:
                return item
        names = ", ".join(item.value for item in self.kind)
        raise Refused(f"{name} is one of {names}, not {shown(value)}")

    def schema(self, named: dict[str, Schema]) -> Schema:
        return {"type": "string", "enum": [item.value for item in self.kind]}


@dataclass(frozen=True, slots=True)
class OptionalForm(JsonForm):
    """A value, or null."""

    inner: JsonForm

    def encode(self, value: Any) -> Any:
        return None if value is None else self.inner.encode(value)

    def decode(self, value: Any, name: str) -> Any:
        return None if value is None else self.inner.decode(value, name)

    def parse(self, text: str, name: str) -> Any:
        return self.inner.parse(text, name)

    def schema(self, named: dict[str, Schema]) -> Schema:
        found = self.inner.schema(named)
        if "$ref" in found or "type" not in found:
            return {"anyOf": [found, {"type": "null"}]}
        if "enum" in found:
            found = {**found, "enum": [*found["enum"], None]}
        return {**found, "type": [found["type"], "null"]}


@dataclass(frozen=True, slots=True)
class ListForm(JsonForm):
    """A list, read as a tuple."""

    inner: JsonForm
    bounds: Between = Between()

    def encode(self, value: Any) -> Any:
        return [self.inner.encode(each) for each in value]

    def decode(self, value: Any, name: str) -> Any:
        if not isinstance(value, list):
            raise Refused(f"{name} must be a list, not {shown(value)}")
        low, high = self.bounds.low, self.bounds.high
        if not low <= len(value) <= high:
            raise Refused(f"{name} must have {low} to {high} items, not {len(value)}")
        return tuple([self.inner.decode(each, name) for each in value])

    def schema(self, named: dict[str, Schema]) -> Schema:
        found: Schema = {"type": "array", "items": self.inner.schema(named)}
        if self.bounds.low:
            found["minItems"] = self.bounds.low
        if self.bounds.high != LARGEST:
            found["maxItems"] = self.bounds.high
        return found


@dataclass(frozen=True, slots=True)
class MapForm(JsonForm):
    """An object with any field names."""

    inner: JsonForm

    def encode(self, value: Any) -> Any:
        return {str(name): self.inner.encode(each) for name, each in value.items()}

    def decode(self, value: Any, name: str) -> Any:
        if not isinstance(value, dict):
            raise Refused(f"{name} must be an object, not {shown(value)}")
        return {key: self.inner.decode(each, f"{name}.{key}") for key, each in value.items()}

    def schema(self, named: dict[str, Schema]) -> Schema:
        return {"type": "object", "additionalProperties": self.inner.schema(named)}


class RecordForm(JsonForm):
    """A dataclass, as an object with its fields. Fields that it does not have are ignored."""

    def __init__(self, kind: type) -> None:
        self._kind = kind
        hints = get_type_hints(kind, include_extras=True)
        self._fields: list[tuple[Field[Any], Described, bool]] = []
        for field in fields(kind):
            described = described_as(hints[field.name])
            self._fields.append((field, described, described.omitted))

    def encode(self, value: Any) -> Any:
        found = {}
        for field, described, omitted in self._fields:
            each = getattr(value, field.name)
            if each is not None or not omitted:
                found[field.name] = described.form.encode(each)
        return found

    def decode(self, value: Any, name: str) -> Any:
        if not isinstance(value, dict):
            raise Refused(f"{name} must be an object, not {shown(value)}")
        found = {}
        for field, described, _ in self._fields:
            if field.name in value:
                inner = f"{name}.{field.name}"
                found[field.name] = described.form.decode(value[field.name], inner)
            elif field.default is MISSING and field.default_factory is MISSING:
                raise Refused(f"{name}.{field.name} is missing")
        return self._kind(**found)

    def schema(self, named: dict[str, Schema]) -> Schema:
        name = self._kind.__name__
        if name not in named:
            named[name] = {}  # so that a type that contains itself ends here
            named[name] = {
                "type": "object",
                "properties": {
                    field.name: described.schema(named) for field, described, _ in self._fields
                },
                "required": [field.name for field, _, omitted in self._fields if not omitted],
            }
        return {"$ref": f"#/components/schemas/{name}"}


@dataclass(frozen=True, slots=True)
class Described:
    """A type as an annotation gives it: its form, and what ``Annotated`` says about it."""

    form: JsonForm
    description: str = ""
    omitted: bool = False

    def schema(self, named: dict[str, Schema]) -> Schema:
        found = self.form.schema(named)
        return {**found, "description": self.description} if self.description else found


@lru_cache(maxsize=1024)
def described_as(annotation: Any) -> Described:
    """What a type annotation says. Raises ``TypeError`` for a type without a JSON form."""
    if get_origin(annotation) is not Annotated:
        return Described(_form(annotation, None))
    inner, *extras = get_args(annotation)
    description, omitted, bounds, form = "", False, None, None
    for extra in extras:
        match extra:
            case str():
                description = extra
            case Between():
                bounds = extra
            case JsonForm():
                form = extra
            case _Omitted():
                omitted = True
    return Described(form or _form(inner, bounds), description, omitted)


def form_of(annotation: Any) -> JsonForm:
    """The form of a type. Raises ``TypeError`` for a type that has none."""
    return described_as(annotation).form


def _form(kind: Any, bounds: Between | None) -> JsonForm:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        some = [each for each in inner if each is not type(None)]
        if len(some) == 1:
            return OptionalForm(_bounded(some[0], bounds))
    elif origin in (tuple, Sequence, list):
        return ListForm(form_of(inner[0]), bounds or Between())
    elif origin in (Mapping, dict):
        return MapForm(form_of(inner[1]))
    elif kind is Any:
        return AnyForm()
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
        return RecordForm(kind)
    raise TypeError(f"{kind!r} has no JSON form")


def _bounded(kind: Any, bounds: Between | None) -> JsonForm:
    return form_of(kind) if bounds is None else _form(kind, bounds)


def plain(value: Any) -> Any:
    """A result as JSON has it: dataclasses become objects, also within tuples and mappings."""
    if is_dataclass(value) and not isinstance(value, type):
        return form_of(type(value)).encode(value)
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    return value
