"""Whether Avro data of one schema can be read with another: Avro's schema resolution rules.

Stricter in two cases where the rules allow what fails on real data: bytes are not read as a string,
since they may not be UTF-8; and logical types present on both sides must be equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker_containers.schemas.steps import TooManySteps, spend

_PROMOTIONS: Final = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
}
_NAMED: Final = ("record", "error", "enum", "fixed")


def unreadable(
    writer: Any, writer_names: Mapping[str, Any], reader: Any, reader_names: Mapping[str, Any]
) -> list[str]:
    """Why the reader cannot read the writer's data, one sentence per problem."""
    comparison = _Comparison(writer_names, reader_names)
    try:
        comparison.compare(writer, reader, "")
    except TooManySteps:
        return ["the schemas are too complex to compare: simplify them"]
    return comparison.found


class _Comparison:
    def __init__(self, writer_names: Mapping[str, Any], reader_names: Mapping[str, Any]) -> None:
        self._writer_names = writer_names
        self._reader_names = reader_names
        self._seen: set[tuple[str, str]] = set()
        self._found: dict[str, None] = {}

    @property
    def found(self) -> list[str]:
        return list(self._found)

    def compare(self, writer: Any, reader: Any, path: str) -> None:
        spend()
        writer = _resolved(writer, self._writer_names)
        reader = _resolved(reader, self._reader_names)
        if isinstance(writer, list):
            for branch in writer:
                self.compare(branch, reader, path)
        elif isinstance(reader, list):
            # A reader uses the first matching branch, even if a later one matches better.
            for branch in reader:
                if self._fits(writer, _resolved(branch, self._reader_names)):
                    self.compare(writer, branch, path)
                    return
            self._tell(path, f"{_name(writer)} is not in the union {_name(reader)}")
        elif not self._fits(writer, reader):
            self._tell(path, f"{_name(writer)} cannot be read as {_name(reader)}")
        else:
            self._compare_inner(writer, reader, path)

    def _fits(self, writer: Any, reader: Any) -> bool:
        """Whether a reader accepts this as its own type, regardless of its contents."""
        spend()
        kind, wanted = _kind(writer), _kind(reader)
        if kind in _NAMED or wanted in _NAMED:
            if kind != wanted:
                return False
            names = [reader["name"], *reader.get("aliases", ())]
            spend(len(names) >> 2)
            return _last(writer["name"]) in map(_last, names)
        return wanted in _PROMOTIONS.get(kind, (kind,))

    def _compare_inner(self, writer: Any, reader: Any, path: str) -> None:
        match _kind(reader):
            case "record" | "error":
                pair = writer["name"], reader["name"]
                if pair not in self._seen:  # otherwise it is recursive and compared above
                    self._seen.add(pair)
                    self._compare_fields(writer, reader, path)
            case "enum":
                known = {*reader["symbols"]}
                spend((len(known) + len(writer["symbols"])) >> 3)
                extra = [name for name in writer["symbols"] if name not in known]
                if extra and "default" not in reader:
                    self._tell(path, f"the enum {reader['name']} lacks {', '.join(extra)}")
            case "fixed":
                if writer["size"] != reader["size"]:
                    self._tell(
                        path,
                        f"{reader['name']} has {reader['size']} bytes instead of {writer['size']}",
                    )
            case "string" if _kind(writer) == "bytes":
                self._tell(path, "bytes may not be UTF-8 and cannot be read as a string")
            case "array":
                self.compare(writer["items"], reader["items"], f"{path}[]")
            case "map":
                self.compare(writer["values"], reader["values"], f"{path}{{}}")
        self._compare_logical(writer, reader, path)

    def _compare_fields(self, writer: Any, reader: Any, path: str) -> None:
        written = {field["name"]: field["type"] for field in writer["fields"]}
        spend(len(written) >> 3)
        for field in reader["fields"]:
            inner = f"{path}.{field['name']}" if path else str(field["name"])
            names = [field["name"], *field.get("aliases", ())]
            spend(len(names) >> 2)
            name = next((name for name in names if name in written), None)
            if name is not None:
                self.compare(written[name], field["type"], inner)
            elif "default" not in field:
                self._tell(inner, "the field is missing in the data and has no default")

    def _compare_logical(self, writer: Any, reader: Any, path: str) -> None:
        mine, theirs = _logical(reader), _logical(writer)
        if mine and theirs and mine != theirs:
            self._tell(
                path, f"the logical type changes from {' '.join(theirs)} to {' '.join(mine)}"
            )

    def _tell(self, path: str, why: str) -> None:
        self._found[f"{path}: {why}" if path else why] = None


def _resolved(node: Any, names: Mapping[str, Any]) -> Any:
    return names.get(node, node) if isinstance(node, str) else node


def _kind(node: Any) -> str:
    return str(node["type"] if isinstance(node, dict) else node)


def _name(node: Any) -> str:
    if isinstance(node, list):
        return f"[{', '.join(map(_name, node))}]"
    if isinstance(node, dict) and "name" in node:
        return f"{node['type']} {node['name']}"
    return _kind(node)


def _last(name: str) -> str:
    """The name without its namespace, which is used to match types of two schemas."""
    return name.rpartition(".")[2]


def _logical(node: Any) -> tuple[str, ...]:
    """The logical type, if any, with its parameters."""
    if not isinstance(node, dict) or "logicalType" not in node:
        return ()
    if node["logicalType"] == "decimal":
        return "decimal", str(node.get("precision")), str(node.get("scale", 0))
    return (str(node["logicalType"]),)
