"""JSON forms: how values of each type are encoded, decoded and described in JSON.

A field of bytes of a dataclass, such as ``payload``, is written as text if it is UTF-8, and
otherwise as Base64 under the name ``payload_base64``; either is read.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from enum import StrEnum
from typing import Any, Final

from sulina.errors import Refused

Schema = dict[str, Any]
LARGEST: Final = (1 << 63) - 1
_LONGEST_SHOWN: Final = 100
_BASE64: Final = "_base64"


@dataclass(frozen=True, slots=True)
class Between:
    """The range of a number, or of the length of a text or list."""

    low: int = 0
    high: int = LARGEST

    def schema(self, low: str, high: str) -> Schema:
        """As keywords of JSON Schema with these names."""
        found = {low: self.low} if self.low or low == "minimum" else {}
        return found if self.high == LARGEST else {**found, high: self.high}


class JsonForm:
    """How values of one type look in JSON. This one is for whatever JSON can hold."""

    def encode(self, value: Any) -> Any:
        """The JSON value of a typed one."""
        return value

    def decode(self, value: Any, name: str) -> Any:
        """The typed value of a JSON one called ``name``. Raises ``Refused``."""
        return value

    def schema(self, named: dict[str, Schema]) -> Schema:
        """The JSON Schema; those of dataclasses are added to ``named`` and referred to."""
        return {}

    def parse(self, text: str, name: str) -> Any:
        """The typed value of a text from a URL. Raises ``Refused``."""
        return self.decode(text, name)


def shown(value: Any) -> str:
    """A wrong value as error messages quote it: never longer than a line."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


class NullForm(JsonForm):
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

    def decode(self, value: Any, name: str) -> Any:
        if not isinstance(value, str):
            raise Refused(f"{name} must be text, not {shown(value)}")
        if not value and self.bounds.low:
            raise Refused(f"{name} is missing")
        if len(value) > self.bounds.high:
            raise Refused(f"{name} must have at most {self.bounds.high} characters")
        return _encodable(value, name)

    def schema(self, named: dict[str, Schema]) -> Schema:
        return {"type": "string", **self.bounds.schema("minLength", "maxLength")}


@dataclass(frozen=True, slots=True)
class WholeForm(JsonForm):
    """A whole number."""

    bounds: Between | None = None

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
        limits = {} if self.bounds is None else self.bounds.schema("minimum", "maximum")
        return {"type": "integer", **limits}


class BytesForm(JsonForm):
    """Bytes, as Base64. Fields of dataclasses may be text, too: see ``RecordForm``."""

    def encode(self, value: Any) -> Any:
        return base64.b64encode(value).decode()

    def decode(self, value: Any, name: str) -> Any:
        if not isinstance(value, str):
            raise Refused(f"{name} must be Base64 text, not {shown(value)}")
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise Refused(f"{name} is not Base64: use the standard alphabet") from None

    def schema(self, named: dict[str, Schema]) -> Schema:
        return {"type": "string", "contentEncoding": "base64"}


class FloatForm(JsonForm):
    """A number."""

    def decode(self, value: Any, name: str) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        raise Refused(f"{name} must be a number, not {shown(value)}")

    def schema(self, named: dict[str, Schema]) -> Schema:
        return {"type": "number"}


class FlagForm(JsonForm):
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
        try:
            return tuple([self.inner.decode(each, name) for each in value])
        except Refused:
            for index, each in enumerate(value):  # once more, to say which item is wrong
                self.inner.decode(each, f"{name}[{index}]")
            raise

    def schema(self, named: dict[str, Schema]) -> Schema:
        limits = self.bounds.schema("minItems", "maxItems")
        return {"type": "array", "items": self.inner.schema(named), **limits}


@dataclass(frozen=True, slots=True)
class MapForm(JsonForm):
    """An object with any field names."""

    inner: JsonForm

    def encode(self, value: Any) -> Any:
        return {str(name): self.inner.encode(each) for name, each in value.items()}

    def decode(self, value: Any, name: str) -> Any:
        if not isinstance(value, dict):
            raise Refused(f"{name} must be an object, not {shown(value)}")
        return {
            _encodable(key, name): self.inner.decode(each, f"{name}.{key}")
            for key, each in value.items()
        }

    def schema(self, named: dict[str, Schema]) -> Schema:
        return {"type": "object", "additionalProperties": self.inner.schema(named)}


@dataclass(frozen=True, slots=True)
class Described:
    """A type as an annotation gives it: its form, and what ``Annotated`` says about it."""

    form: JsonForm
    description: str = ""
    omitted: bool = False
    binary: bool = False
    """Whether it is bytes, or bytes and None."""

    def schema(self, named: dict[str, Schema]) -> Schema:
        found = self.form.schema(named)
        return {**found, "description": self.description} if self.description else found


class RecordForm(JsonForm):
    """A dataclass, as an object with its fields; ``closed`` refuses other fields."""

    def __init__(self, kind: type, described: Mapping[str, Described], *, closed: bool) -> None:
        self._kind = kind
        self._closed = closed
        self._fields = {each.name: (each, described[each.name]) for each in fields(kind)}
        binary = {name + _BASE64 for name, (_, each) in self._fields.items() if each.binary}
        self._known = frozenset(self._fields.keys() | binary)
        self._plan = [
            (name, each.form, each.binary, not _optional(field))
            for name, (field, each) in self._fields.items()
        ]

    def encode(self, value: Any) -> Any:
        found: dict[str, Any] = {}
        for name, (field, described) in self._fields.items():
            each = getattr(value, name)
            if described.omitted and each == field.default:
                continue
            if not described.binary:
                found[name] = described.form.encode(each)
            elif each is not None:
                try:
                    found[name] = each.decode()
                except UnicodeDecodeError:
                    found[name + _BASE64] = described.form.encode(each)
        return found

    def decode(self, value: Any, name: str) -> Any:
        if not isinstance(value, dict):
            raise Refused(f"{name} must be an object, not {shown(value)}")
        if self._closed and not value.keys() <= self._known:
            unknown, known = min(value.keys() - self._known), ", ".join(sorted(self._known))
            raise Refused(f"{name} has no field {unknown!r}: choose from {known}")
        found = {}
        for key, form, binary, required in self._plan:
            if not binary and key in value:
                found[key] = form.decode(value[key], f"{name}.{key}")
            elif binary and (data := _read_bytes(value, key, name)) is not None:
                found[key] = data
            elif required:
                other = f": give it as text, or as {key}{_BASE64}" if binary else ""
                raise Refused(f"{name}.{key} is missing{other}")
        return self._kind(**found)

    def schema(self, named: dict[str, Schema]) -> Schema:
        title = self._kind.__name__
        if title not in named:
            named[title] = {}  # so that a type that contains itself ends here
            found: Schema = {"type": "object", "properties": {}, "required": []}
            for name, (field, described) in self._fields.items():
                found["properties"][name] = described.schema(named)
                if described.binary:
                    found["properties"][name] = {"type": "string", "description": "If it is UTF-8."}
                    found["properties"][name + _BASE64] = BytesForm().schema(named)
                    if field.default is MISSING:
                        either = (name, name + _BASE64)
                        found["oneOf"] = [{"required": [each]} for each in either]
                elif not described.omitted and not (self._closed and _optional(field)):
                    found["required"].append(name)
            if self._closed:
                found["additionalProperties"] = False
            named[title] = found
        return {"$ref": f"#/components/schemas/{title}"}


def _optional(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _encodable(text: str, name: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Refused(f"{name} has half of a surrogate pair: that is not text") from None
    return text


def _read_bytes(value: Mapping[str, Any], key: str, name: str) -> bytes | None:
    """Bytes that are given as text or as Base64; None if neither is given."""
    text = value.get(key)
    encoded = value.get(key + _BASE64)
    if encoded is not None:
        if text is not None:
            raise Refused(f"{key} and {key}{_BASE64} are given: choose one")
        data: bytes = BytesForm().decode(encoded, f"{name}.{key}{_BASE64}")
        return data
    if text is None:
        return None
    if not isinstance(text, str):
        raise Refused(f"{name}.{key} must be text, not {shown(text)}: put JSON in quotes")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Refused(
            f"{name}.{key} has half of a surrogate pair: send it as {key}{_BASE64}"
        ) from None
