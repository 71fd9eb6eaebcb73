"""Parses definitions in any schema language, with a cache.

A language's library is loaded with the first schema that needs it. The cache is keyed by content,
so its entries never go out of date; the least recently used are dropped.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from functools import partial
from typing import Final

from broker_containers.schemas.errors import InvalidSchema
from broker_containers.schemas.format import MAX_DEFINITION, Format
from broker_containers.schemas.plain import Plain
from broker_containers.schemas.protobuf import ProtoCompiler
from broker_containers.schemas.steps import READ_STEPS, TooManySteps, run_bounded
from sulina.errors import TooLarge
from sulina.metadata.keys.schemas import Compatibility, SchemaType, Validation
from sulina.runtime.seam import RunBlocking

_KEPT: Final = 256
_KEPT_BYTES: Final = 8 << 20
"""Bytes of cached definitions; the parsed form is about ten times larger."""
_TYPES: Final = {
    **{kind.value: kind for kind in SchemaType},
    "int": SchemaType.NUMBER,
    "int64": SchemaType.NUMBER,
    "float": SchemaType.NUMBER,
    "double": SchemaType.NUMBER,
    "json": SchemaType.JSON_SCHEMA,
    "jsonschema": SchemaType.JSON_SCHEMA,
    "proto": SchemaType.PROTOBUF,
}


def type_of(name: str) -> SchemaType:
    """A type by its name or an alias. Raises ``InvalidSchema``."""
    found = _TYPES.get(name.lower())
    if found is None:
        raise InvalidSchema(f"no schema type {name!r}: choose from {', '.join(_TYPES)}")
    return found


def mode_of(name: str) -> Compatibility:
    """A compatibility mode by its name. Raises ``InvalidSchema``."""
    try:
        return Compatibility(name.lower())
    except ValueError:
        raise InvalidSchema(
            f"no compatibility mode {name!r}: choose from {', '.join(Compatibility)}"
        ) from None


def validation_of(name: str) -> Validation:
    """A validation policy by its name. Raises ``InvalidSchema``."""
    try:
        return Validation(name.lower())
    except ValueError:
        raise InvalidSchema(
            f"no validation policy {name!r}: choose from {', '.join(Validation)}"
        ) from None


class Formats:
    """Parses definitions. ``compiler``, if given, compiles .proto text to descriptors."""

    def __init__(self, compiler: ProtoCompiler | None, run_blocking: RunBlocking) -> None:
        self._compiler = compiler
        self._run_blocking = run_blocking
        self._kept: OrderedDict[tuple[SchemaType, bytes], tuple[Format, int]] = OrderedDict()
        self._bytes = 0

    async def understand(
        self, kind: SchemaType, definition: bytes, compiled: bytes | None = None
    ) -> Format:
        """The parsed schema; ``compiled`` is what was stored with the definition, if anything.

        Raises ``InvalidSchema``, and ``TooLarge`` beyond ``MAX_DEFINITION``. Waits for the compiler
        if .proto text was not compiled before, and for ``run_blocking``.
        """
        if len(definition) > MAX_DEFINITION:
            raise TooLarge(
                f"a schema may have at most {MAX_DEFINITION} bytes, this one has {len(definition)}"
            )
        key = kind, hashlib.sha256(definition).digest()
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key][0]
        found = await self._make(kind, definition, compiled)
        self._keep(key, found, len(definition) + len(found.compiled or b""))
        return found

    async def _make(self, kind: SchemaType, definition: bytes, compiled: bytes | None) -> Format:
        try:
            return await self._read(kind, definition, compiled)
        except TooManySteps:
            raise InvalidSchema("the schema is too complex: simplify it") from None

    async def _read(self, kind: SchemaType, definition: bytes, compiled: bytes | None) -> Format:
        # Imported here: the libraries load slowly and are optional.
        run = partial(run_bounded, self._run_blocking, READ_STEPS)
        if kind is SchemaType.AVRO:
            from broker_containers.schemas.avro import Avro

            return await run(lambda: Avro(definition))
        if kind is SchemaType.JSON_SCHEMA:
            from broker_containers.schemas.json_schema import JsonSchema

            return await run(lambda: JsonSchema(definition))
        if kind is SchemaType.PROTOBUF:
            from broker_containers.schemas.protobuf import Protobuf, descriptors_of

            descriptors = compiled or await descriptors_of(definition, self._compiler)
            return await run(lambda: Protobuf(descriptors))
        return Plain(kind)

    def _keep(self, key: tuple[SchemaType, bytes], found: Format, size: int) -> None:
        if key in self._kept:  # another task was faster
            return
        self._kept[key] = found, size
        self._bytes += size
        while len(self._kept) > _KEPT or (self._bytes > _KEPT_BYTES and len(self._kept) > 1):
            _, (_, gone) = self._kept.popitem(last=False)
            self._bytes -= gone
