"""Operations as tools: their names, JSON Schemas, and which of them only read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from sulina.operations.declaration import Argument, Call, Declaration
from sulina.operations.json_forms import Schema
from sulina.operations.operation_list import OPERATIONS

_OPENAPI, _DEFINITIONS = "#/components/schemas/", "#/$defs/"
_MOST_CHARACTERS: Final = 100_000
"""Of an answer: assistants pay for what they read."""


class Tools:
    """The tools that a session offers. ``call`` runs operations with the rights of the caller."""

    def __init__(self, call: Call, *, changes: bool) -> None:
        """Without ``changes`` only what reads is offered, and refused otherwise."""
        self._call = call
        self._changes = changes
        self._offered: Final[Mapping[str, Declaration]] = {
            name.replace(".", "_"): each
            for name, each in OPERATIONS.items()
            if changes or _reads(each)
        }

    def list(self) -> list[dict[str, Any]]:
        """What a client needs to know of each."""
        return [self._described(name, each) for name, each in self._offered.items()]

    def __contains__(self, name: str) -> bool:
        return name in self._offered

    async def run(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Run a tool; the answer is JSON, cut where it is too long. Raises ``SulinaError``."""
        operation = self._offered[name]
        known = self._arguments(operation)
        answer = await self._call(
            operation.name, {key: value for key, value in arguments.items() if key in known}
        )
        text = json.dumps(answer, ensure_ascii=False)
        if len(text) <= _MOST_CHARACTERS:
            return text
        return (
            f"{text[:_MOST_CHARACTERS]}\n(cut: the answer has {len(text):,} characters; ask for "
            "less, for example with a limit or a prefix)"
        )

    def unknown(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """The first argument that a tool does not take; None if it takes all."""
        known = self._arguments(self._offered[name])
        return next((each for each in arguments if each not in known), None)

    def _arguments(self, operation: Declaration) -> Mapping[str, Argument]:
        """Those that a session may give: of an operation that changes things, those that read."""
        if self._changes or operation.read is None:
            return operation.arguments
        path = operation.read.path_arguments
        return {name: each for name, each in operation.arguments.items() if name in path}

    def _described(self, name: str, operation: Declaration) -> dict[str, Any]:
        named: dict[str, Schema] = {}
        arguments = self._arguments(operation)
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {key: each.described.schema(named) for key, each in arguments.items()},
            "required": [key for key, each in arguments.items() if each.required],
            "additionalProperties": False,
        }
        if named:
            schema["$defs"] = named
        reads = not self._changes or _only_reads(operation)
        return {
            "name": name,
            "title": operation.summary,
            "description": operation.description,
            "inputSchema": json.loads(json.dumps(schema).replace(_OPENAPI, _DEFINITIONS)),
            "annotations": {
                "readOnlyHint": reads,
                "destructiveHint": not reads and operation.http.verb == "DELETE",
                "openWorldHint": False,
            },
        }


def _only_reads(operation: Declaration) -> bool:
    return operation.http.verb == "GET"


def _reads(operation: Declaration) -> bool:
    """Whether it reads, or can be asked to read with fewer arguments."""
    return _only_reads(operation) or operation.read is not None
