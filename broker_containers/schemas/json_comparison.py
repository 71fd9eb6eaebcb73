"""Whether JSON data of one schema is valid under another.

Data counts as readable only if that is proven. For everything the reader requires, the writer must
guarantee as much; what cannot be compared must be equal on both sides.

One assumption about writers: unless their schema has ``additionalProperties``, they write only the
properties that it names. Otherwise no optional property could ever be added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from broker_containers.schemas import json_arrays, json_objects, json_scalars
from broker_containers.schemas.format import canonical_json
from broker_containers.schemas.json_parts import Node, Parts, kind_of, types_of
from broker_containers.schemas.json_values import (
    Alternative,
    CannotCompare,
    alternatives,
    tell,
)
from broker_containers.schemas.steps import TooManySteps, spend

_BYTES_PER_STEP: Final = 200
_FINITE: Final = (None, False, True)
_CONDITION: Final = ("if", "then", "else")
_Key = tuple[tuple[Any, ...], int]


class ComparableSchema(Protocol):
    """A JSON Schema that gives its parts and validates values."""

    parts: Parts

    def holds(self, node: Node, value: Any) -> bool:
        """Whether a value is valid under a schema within this one."""


def unreadable(writer: ComparableSchema, reader: ComparableSchema) -> list[str]:
    """Why the writer's data is not valid for the reader, one sentence per problem."""
    if writer.parts.dialect != reader.parts.dialect:
        return [f"the draft changes from {writer.parts.dialect} to {reader.parts.dialect}"]
    try:
        return Comparison(writer, reader).values((writer.parts.root,), reader.parts.root, "")
    except CannotCompare as error:
        return [str(error)]
    except (TooManySteps, RecursionError):
        return ["the schemas are too complex to compare: simplify them"]


class Comparison:
    """Compares two schemas level by level."""

    def __init__(self, writer: ComparableSchema, reader: ComparableSchema) -> None:
        self.writer = writer
        self.reader = reader
        self._known: dict[_Key, list[str]] = {}
        self._texts: dict[int, bytes] = {}

    def values(self, written: Sequence[Node], read: Node, path: str) -> list[str]:
        """Why values that satisfy all of ``written`` would not be valid for ``read``."""
        if read is True or read == {} or any(self._equal(node, read) for node in written):
            return []
        found: list[str] = []
        for alternative in alternatives(written, self.writer.parts):
            found += self.alternative(alternative, read, path)
        return list(dict.fromkeys(found))

    def alternative(self, written: Alternative, read: Node, path: str) -> list[str]:
        """The same for one alternative of the writer's values."""
        if isinstance(read, bool):
            return [] if read else [tell(path, "it is not allowed")]
        spend(1 + (len(written.facts) >> 2))
        key = written.key, id(read)
        if key in self._known:
            return self._known[key]
        before = len(self._known)
        self._known[key] = []  # assumed while its own recursion is compared
        found = self._compare(written, read, path)
        if found:
            # Conclusions drawn from the assumption are void.
            while len(self._known) > before:
                self._known.popitem()
        self._known[key] = found
        return found

    def name_holds(self, node: Node, name: str) -> bool:
        """Whether ``node`` of the reader allows a property of this name."""
        return self.reader.holds(node, name)

    def same(self, written: Alternative, read: dict[str, Any], *keywords: str) -> bool:
        """Whether the writer has exactly the same keywords."""
        wanted = _text({word: read[word] for word in keywords if word in read})
        return b'"$ref"' not in wanted and any(
            _text({word: fact[word] for word in keywords if word in fact}) == wanted
            for fact in written.facts
        )

    def _equal(self, mine: Node, other: Node) -> bool:
        """Whether two schemas are equal; references may lead to different targets."""
        texts = self._text(mine), self._text(other)
        return texts[0] == texts[1] and b'"$ref"' not in texts[0]

    def _text(self, node: Node) -> bytes:
        if id(node) not in self._texts:
            self._texts[id(node)] = _text(node)
        return self._texts[id(node)]

    def _compare(self, written: Alternative, read: dict[str, Any], path: str) -> list[str]:
        few = self._few_values(written)
        if few is not None:
            wrong = [value for value in few if not self.reader.holds(read, value)]
            return [tell(path, f"{_short(value)} is not allowed") for value in wrong]
        found: list[str] = []
        if "$ref" in read:
            found += self.alternative(written, self.reader.parts.target(read["$ref"]), path)
            if self.reader.parts.old:
                return found
        found += self._combinations(written, read, path)
        if not written.types <= types_of(read):
            found.append(tell(path, f"{_kind(written)} cannot be read as {_types(read)}"))
        elif "enum" in read or "const" in read:
            found.append(tell(path, f"only {_short(read.get('enum', read.get('const')))} is read"))
        else:
            for compare in (json_scalars.compare, json_arrays.compare, json_objects.compare):
                found += compare(self, written, read, path)
        return found

    def _few_values(self, written: Alternative) -> list[Any] | None:
        """The writer's values, if they are few enough to try each."""
        if written.types <= {"null", "boolean"}:
            candidates: Sequence[Any] = _FINITE
        elif lists := written.has("enum"):
            candidates = lists[0]
        elif constants := written.has("const"):
            candidates = constants[:1]
        else:
            return None
        return [
            value
            for value in candidates
            if kind_of(value) in written.types
            and all(self.writer.holds(fact, value) for fact in written.facts)
        ]

    def _combinations(self, written: Alternative, read: dict[str, Any], path: str) -> list[str]:
        found: list[str] = []
        for branch in read.get("allOf", ()):
            found += self.alternative(written, branch, path)
        if "anyOf" in read:
            found += self._some(written, read["anyOf"], path)
        if "oneOf" in read:
            found += self._one(written, read["oneOf"], path)
        if "not" in read and not (
            self._apart(written, read["not"]) or self.same(written, read, "not")
        ):
            found.append(tell(path, "it may match what `not` excludes"))
        if "if" in read and not self.same(written, read, *_CONDITION):
            found.append(tell(path, "if, then and else changed and cannot be compared"))
        return found

    def _some(self, written: Alternative, branches: Sequence[Node], path: str) -> list[str]:
        """Empty if one branch reads everything."""
        tried = [self.alternative(written, branch, path) for branch in branches]
        if any(not reasons for reasons in tried):
            return []
        if len(tried) == 1:
            return tried[0]
        return [tell(path, f"{_kind(written)} matches none of the alternatives")]

    def _one(self, written: Alternative, branches: Sequence[Node], path: str) -> list[str]:
        """Empty if one branch reads everything, and the others nothing."""
        possible = [branch for branch in branches if not self._apart(written, branch)]
        found = self._some(written, possible, path)
        if not found and len(possible) > 1:
            return [tell(path, "it may match several alternatives of oneOf")]
        return found

    def _apart(self, written: Alternative, branch: Node) -> bool:
        """Whether none of the writer's values match ``branch``."""
        spend(len(written.others) >> 2)
        if any(self._equal(other, branch) for other in written.others):
            return True
        return not any(
            written.types & other.types for other in alternatives((branch,), self.reader.parts)
        )


def _text(node: Any) -> bytes:
    text = canonical_json(node)
    spend(1 + len(text) // _BYTES_PER_STEP)
    return text


def _kind(written: Alternative) -> str:
    return "number" if "fraction" in written.types else " or ".join(sorted(written.types))


def _types(read: dict[str, Any]) -> str:
    named = read["type"]
    return named if isinstance(named, str) else " or ".join(named)


def _short(value: Any) -> str:
    text = canonical_json(value).decode()
    return text if len(text) <= 80 else f"{text[:80]}..."
