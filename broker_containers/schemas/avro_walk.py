"""Checks Avro data step by step, as strictly as any reader, to a bounded depth.

fastavro's decoder is not safe for untrusted data: it accepts an index of -1, a boolean of 7 and an
int of 40 bits, and crashes the process for data that is nested very deeply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker_containers.schemas.errors import InvalidPayload
from broker_containers.schemas.steps import spend

MAX_DEPTH: Final = 100
_INT: Final = 1 << 31
_LONG: Final = 1 << 63


def check(root: Any, names: Mapping[str, Any], payload: bytes) -> None:
    """Raises ``InvalidPayload`` if ``payload`` is not exactly one datum, and ``TooManySteps``."""
    walker = _Walker(names, payload)
    walker.datum(root, 0)
    if walker.position != len(payload):
        raise InvalidPayload(
            f"the payload has {len(payload)} bytes, but its Avro datum ends after "
            f"{walker.position}: write one datum, without a header"
        )


class _Walker:
    def __init__(self, names: Mapping[str, Any], data: bytes) -> None:
        self._names = names
        self._data = data
        self.position = 0

    def datum(self, node: Any, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise InvalidPayload(f"the payload is nested more than {MAX_DEPTH} levels")
        if isinstance(node, list):
            self.datum(node[self._index(len(node), "branches of a union")], depth + 1)
            return
        spend()  # also for what takes no space: records of records of nothing
        kind = node["type"] if isinstance(node, dict) else node
        match kind:
            case "null":
                return
            case "boolean":
                if self._take(1) not in (b"\0", b"\1"):
                    raise _broken("a boolean is neither 0 nor 1")
            case "int":
                if not -_INT <= self._number() < _INT:
                    raise _broken("an int has more than 32 bits")
            case "long":
                self._number()
            case "float":
                self._take(4)
            case "double":
                self._take(8)
            case "bytes":
                self._take(self._length())
            case "string":
                self._text()
            case "fixed":
                self._take(node["size"])
            case "enum":
                self._index(len(node["symbols"]), "symbols of an enum")
            case "array" | "map":
                self._blocks(node, depth + 1)
            case "record" | "error":
                for field in node["fields"]:
                    self.datum(field["type"], depth + 1)
            case _:
                self.datum(self._names[kind], depth)

    def _blocks(self, node: Any, depth: int) -> None:
        while count := self._number():
            if count < 0:
                self._number()  # the block's size, which is not needed
            for _ in range(abs(count)):
                if node["type"] == "map":
                    self._text()
                    self.datum(node["values"], depth)
                else:
                    # Items take space (see avro.py), so a false count ends with the payload.
                    self.datum(node["items"], depth)

    def _text(self) -> None:
        try:
            self._take(self._length()).decode()
        except UnicodeDecodeError:
            raise _broken("a string is not UTF-8") from None

    def _index(self, count: int, what: str) -> int:
        index = self._number()
        if not 0 <= index < count:
            raise _broken(f"index {index} is out of range for {count} {what}")
        return index

    def _length(self) -> int:
        length = self._number()
        if length < 0:
            raise _broken(f"length {length} is out of range")
        return length

    def _number(self) -> int:
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift > 63:
                raise _broken("a number has more than 64 bits")
        number = (value >> 1) ^ -(value & 1)
        if not -_LONG <= number < _LONG:
            raise _broken("a number has more than 64 bits")
        return number

    def _take(self, length: int) -> bytes:
        end = self.position + length
        if end > len(self._data):
            raise _broken("it ends early")
        taken = self._data[self.position : end]
        self.position = end
        return taken


def _broken(why: str) -> InvalidPayload:
    return InvalidPayload(
        f"the payload is not Avro of this schema ({why}): "
        "write it with the schema that the message names"
    )
