"""From a class to how its values become payloads: what typed producers and consumers go by."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Final, Protocol

from sulina.client.dataclass_codec import DataclassCodec
from sulina.errors import Refused


class Codec(Protocol):
    """Values of one class as payloads."""

    @property
    def language(self) -> str:
        """The language of the schema, as the registry calls it."""
        ...

    @property
    def definition(self) -> str:
        """The schema."""
        ...

    def encode(self, value: Any) -> bytes:
        """Raises ``Refused`` for a value that is not as the schema says."""
        ...

    def decode(self, payload: bytes) -> Any:
        """Raises ``Refused`` for a payload that can't be such a value."""
        ...


class PydanticCodec:
    """A pydantic model: it has the schema, and reads and writes JSON itself."""

    language: Final = "json_schema"

    def __init__(self, model: Any) -> None:
        self._model = model
        self.definition: Final = json.dumps(model.model_json_schema(), sort_keys=True)

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, self._model):
            raise Refused(f"{value!r:.80} is no {self._model.__name__}")
        text: str = value.model_dump_json(by_alias=True)
        return text.encode()

    def decode(self, payload: bytes) -> Any:
        try:
            return self._model.model_validate_json(payload)
        except ValueError as error:  # pydantic's own is one
            raise Refused(f"the payload can't be read as {self._model.__name__}: {error}") from None


def codec_of(kind: type[Any]) -> Codec:
    """The codec of a pydantic model or a dataclass. Raises ``Refused`` for anything else."""
    if hasattr(kind, "model_validate_json") and hasattr(kind, "model_json_schema"):
        return PydanticCodec(kind)
    if dataclasses.is_dataclass(kind):
        return DataclassCodec(kind)
    raise Refused(f"{kind!r} is neither a pydantic model nor a dataclass")
