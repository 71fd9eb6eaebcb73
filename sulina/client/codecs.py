"""Codecs of typed producers and consumers: values of a class to payloads and back."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Final, Protocol

from sulina.errors import Refused


class ValueCodec(Protocol):
    """Encodes and decodes the values of one class."""

    @property
    def language(self) -> str:
        """The schema language, by its name in the registry."""
        ...

    @property
    def definition(self) -> str:
        """The schema's text."""
        ...

    def encode(self, value: Any) -> bytes:
        """Raises ``Refused`` for a value that violates the schema."""
        ...

    def decode(self, payload: bytes) -> Any:
        """Raises ``Refused`` for a payload that cannot be decoded."""
        ...


class PydanticCodec:
    """A pydantic model, which provides the schema and the JSON conversion itself."""

    language: Final = "json_schema"

    def __init__(self, model: Any) -> None:
        self._model = model
        self.definition: Final = json.dumps(model.model_json_schema())

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, self._model):
            raise Refused(f"{value!r:.80} is not a {self._model.__name__}: send an instance of it")
        text: str = value.model_dump_json(by_alias=True)
        return text.encode()

    def decode(self, payload: bytes) -> Any:
        try:
            return self._model.model_validate_json(payload)
        except ValueError as error:  # pydantic's ValidationError is one
            raise Refused(
                f"the payload cannot be decoded as {self._model.__name__}: {error}"
            ) from None


def codec_of(kind: type[Any]) -> ValueCodec:
    """The codec of a pydantic model or a dataclass. Raises ``Refused`` for anything else."""
    if hasattr(kind, "model_validate_json") and hasattr(kind, "model_json_schema"):
        return PydanticCodec(kind)
    if dataclasses.is_dataclass(kind):
        # Most clients send bytes, and the codec takes a while to load.
        from sulina.client.dataclass_codec import DataclassCodec

        return DataclassCodec(kind)
    raise Refused(f"{kind!r} is neither a pydantic model nor a dataclass: use one as schema")
