"""Writes docs/reference/operations.md from the declarations: ``python -m`` this module."""

from __future__ import annotations

import sys
from typing import Final

from sulina.model import EVERYTHING
from sulina.operations.declaration import Argument, Declaration, Right, RunsOn
from sulina.operations.json_forms import Schema
from sulina.operations.operation_list import GROUPS

_HEAD: Final = """\
# Operations

Every administrative call, as it is declared in [sulina/operations](../../sulina/operations). This
page is written by `python -m broker_containers.operations.reference`.

Each is available as a method of the Python client (`client.admin`), by its name on the binary
port, and over HTTP below `/api/v1`. Arguments that are not in the path are parameters of GET and
DELETE, and fields of the JSON body otherwise. [http.md](../http.md) has examples.
"""
_RUNS_ON: Final = {
    RunsOn.ANY_BROKER: "any broker",
    RunsOn.TOPIC_OWNER: "the topic's owner",
    RunsOn.PARTITION_OWNERS: "the owner of each partition",
    RunsOn.LEADER: "the leader",
}


def reference() -> str:
    """The whole page."""
    chapters = [_HEAD]
    for attribute, group in GROUPS.items():
        chapters.append(f"\n## {attribute}\n")
        chapters += [_entry(attribute, each) for each in group.operations]
    return "".join(chapters)


def _entry(attribute: str, operation: Declaration) -> str:
    given = ", ".join(name for name, each in operation.arguments.items() if each.required)
    routes = ", ".join(f"`{route.verb} {route.path}`" for route in operation.routes)
    runs = _RUNS_ON[operation.runs_on]
    lines = [
        f"\n### `{operation.name}`\n",
        operation.description,
        "",
        f"- Python: `client.admin.{attribute}.{operation.method}({given})`",
        f"- HTTP: {routes}",
        f"- Right: {' and '.join(map(_right, operation.rights))}"
        + (f"; to read, {_right(operation.read_right)}" if operation.read_right else ""),
        f"- Runs on: {runs}" + ("; needs a cluster" if operation.needs_cluster else ""),
        f"- Result: {_type(operation.result.schema({}))}",
    ]
    if operation.arguments:
        lines += ["", "| argument | type | |", "|---|---|---|"]
        lines += [_row(each) for each in operation.arguments.values()]
    return "\n".join(lines) + "\n"


def _row(argument: Argument) -> str:
    description = argument.described.description.replace("|", "\\|")
    about = " ".join(filter(None, ("required." if argument.required else "", description)))
    return f"| `{argument.name}` | {_type(argument.described.form.schema({}))} | {about} |"


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"] if each is not None)
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if schema.get("properties") == {}:
        return "nothing"
    kind = schema.get("type", "any JSON")
    return kind if isinstance(kind, str) else " or ".join(kind)


def _right(right: Right) -> str:
    if not right.scope:
        return "any valid token"
    action = "any right" if right.action is None else f"`{right.action}`"
    if right.instead is not None:
        action += f" or `{right.instead}`"
    place = right.scope + (f"#{{{right.subscription}}}" if right.subscription else "")
    where = "everything" if right.scope == EVERYTHING else f"`{place}`"
    otherwise = right.missing
    if otherwise is not None and otherwise.scope:
        return f"{action} on {where}, or without that argument {_right(otherwise)}"
    return f"{action} on {where}" + (" if given" if otherwise is not None else "")


if __name__ == "__main__":
    sys.stdout.write(reference())
