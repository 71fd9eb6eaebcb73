"""JSON payloads, one at a time. Pure.

A payload is one JSON text in UTF-8. Only types decide whether it fits: ranges, patterns and
required properties are the business of payload validation. Properties that the schema does not
name are ignored, absent ones get the default of their schema or null; of repeated ones the last
counts.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final

from sulina.lake.typed.rows import ReadOne, Unfit
from sulina.lake.typed.shapes import BARE, MISSING, RANGES, Shape

_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_DECIMAL: Final = re.compile(r"-?\d{1,100}(?:\.\d{1,100})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_MICROSECOND: Final = timedelta(microseconds=1)
_EXACT: Final = Context(prec=250)


def json_reader(shape: Shape) -> ReadOne:
    """Reads payloads of ``shape``."""
    # Only decimals need the digits of a number; for doubles this is slower.
    parse_float = Decimal if shape.has("decimal") else float

    def read(payload: bytes) -> Any:
        try:
            text = payload.decode()
        except UnicodeDecodeError as error:
            raise Unfit(f"it is not UTF-8 (byte {error.start})") from None
        if not text.strip():
            raise Unfit("it is empty")
        try:
            value = json.loads(text, parse_float=parse_float, parse_constant=_no_constant)
        except RecursionError:
            raise
        except (ValueError, InvalidOperation) as error:
            raise Unfit(f"it is not one JSON value: {error}") from None
        if shape.wire == BARE:
            return {"value": fit(value, shape.fields[0].shape)}
        if not isinstance(value, dict):
            raise _wrong(value, shape)
        return fit(value, shape)

    return read


def fit(value: Any, shape: Shape) -> Any:
    """A JSON value as ``shape``, for Arrow. Raises ``Unfit``."""
    if value is None:
        return None
    return _FITTERS[shape.kind](value, shape)


def parse_time(text: str) -> int:
    """Microseconds since 1970 of an RFC 3339 time; further digits are cut. Raises ``Unfit``."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise Unfit(f"{text[:80]!r} is not a time such as 2026-05-01T12:00:00Z")
    day, clock, fraction, sign, hours, minutes = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}+00:00")
    except ValueError:
        raise Unfit(f"{text[:80]!r} is not a time that exists") from None
    found = (moment - _EPOCH) // _MICROSECOND + int((fraction or "0")[:6].ljust(6, "0"))
    if sign:
        if int(hours) > 23 or int(minutes) > 59:
            raise Unfit(f"{text[:80]!r} is not a time that exists")
        ahead = (int(hours) * 60 + int(minutes)) * 60_000_000
        found += -ahead if sign == "+" else ahead
    first, last = RANGES["timestamp"]
    if not first <= found <= last:
        raise Unfit(f"{text[:80]!r} is not in the years 1 to 9999")
    return found


def parse_day(text: str) -> int:
    """Days since 1970 of a date. Raises ``Unfit``."""
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text).toordinal() - _EPOCH_DAY
    except ValueError:
        pass
    raise Unfit(f"{text[:80]!r} is not a date such as 2026-05-01")


def parse_uuid(text: str) -> str:
    """A UUID in lower case. Raises ``Unfit``."""
    lower = text.lower()
    if not _UUID.fullmatch(lower):
        raise Unfit(f"{text[:80]!r} is not a uuid")
    return lower


def to_text(value: Any) -> str:
    """A JSON value as text. Raises ``Unfit`` if it cannot be stored."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=float)
    return _storable(text)


def fit_decimal(value: Decimal, shape: Shape) -> Decimal:
    """``value`` if it has no more digits than ``shape``. Raises ``Unfit``."""
    try:
        digits = _EXACT.quantize(value, Decimal(1).scaleb(-shape.scale))
    except InvalidOperation:
        digits = Decimal("NaN")
    if digits != value or abs(digits) >= Decimal(10) ** (shape.precision - shape.scale):
        raise Unfit(f"{str(value)[:80]} has more digits than {shape.precision},{shape.scale}")
    return digits


def _storable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unfit("it contains half of a surrogate pair, which is not text") from None
    return text


def _struct(value: Any, shape: Shape) -> Any:
    if not isinstance(value, dict):
        raise _wrong(value, shape)
    found = {}
    for each in shape.fields:
        if each.name in value:
            try:
                found[each.name] = fit(value[each.name], each.shape)
            except Unfit as error:
                raise error.within(each.name) from None
        else:
            found[each.name] = None if each.default is MISSING else each.default
    return found


def _list(value: Any, shape: Shape) -> Any:
    if not isinstance(value, list):
        raise _wrong(value, shape)
    assert shape.item is not None
    return [_item(each, shape.item, f"[{place}]") for place, each in enumerate(value)]


def _map(value: Any, shape: Shape) -> Any:
    if not isinstance(value, dict):
        raise _wrong(value, shape)
    item = shape.item
    assert item is not None
    return [(_storable(name), _item(each, item, name)) for name, each in value.items()]


def _item(value: Any, shape: Shape, step: str) -> Any:
    try:
        return fit(value, shape)
    except Unfit as error:
        raise error.within(step) from None


def _boolean(value: Any, shape: Shape) -> Any:
    if not isinstance(value, bool):
        raise _wrong(value, shape)
    return value


def _long(value: Any, shape: Shape) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _wrong(value, shape)
    # JSON Schema counts 1.0 as an integer. A Decimal is compared first: 1e999 has many digits.
    if not -(1 << 63) <= value < 1 << 63 or int(value) != value:
        raise _wrong(value, shape)
    return int(value)


def _double(value: Any, shape: Shape) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _wrong(value, shape)
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise Unfit("the number is too large")
    return found


def _decimal(value: Any, shape: Shape) -> Any:
    if shape.wire == "string":
        text = value if isinstance(value, str) else ""
    else:
        number = isinstance(value, int | Decimal) and not isinstance(value, bool)
        text = str(value) if number else ""
    if not _DECIMAL.fullmatch(text):
        raise _wrong(value, shape)
    return fit_decimal(Decimal(text), shape)


def _string(value: Any, shape: Shape) -> Any:
    if not isinstance(value, str):
        raise _wrong(value, shape)
    if shape.kind == "timestamp":
        return parse_time(value)
    if shape.kind == "date":
        return parse_day(value)
    if shape.kind == "uuid":
        return parse_uuid(value)
    return _storable(value)


_FITTERS: Final[dict[str, Callable[[Any, Shape], Any]]] = {
    "struct": _struct,
    "list": _list,
    "map": _map,
    "boolean": _boolean,
    "long": _long,
    "double": _double,
    "decimal": _decimal,
    "string": _string,
    "timestamp": _string,
    "date": _string,
    "uuid": _string,
    "json": lambda value, _: to_text(value),
}


def _wrong(value: Any, shape: Shape) -> Unfit:
    shown = repr(value)[:80] if isinstance(value, float | Decimal) else _shown(value)
    return Unfit(f"{shown} is not a {shape.kind}")


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    return json.dumps(value)[:80]


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")
