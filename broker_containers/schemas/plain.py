"""Schemas without a definition: bytes, strings, numbers."""

from __future__ import annotations

from dataclasses import dataclass

from broker_containers.schemas.errors import InvalidPayload
from sulina.metadata.keys.schemas import SchemaType

_NUMBER_LENGTHS = (4, 8)


@dataclass(frozen=True, slots=True)
class Plain:
    """Any bytes, UTF-8 text, or a number of 4 or 8 bytes. Two of one type are equal."""

    type: SchemaType

    @property
    def fingerprint(self) -> str:
        return self.type.value

    @property
    def compiled(self) -> None:
        return None

    @property
    def unchecked(self) -> tuple[str, ...]:
        return ()

    def unreadable(self, writer: Plain) -> list[str]:
        assert writer.type is self.type
        return []

    def check(self, payload: bytes) -> None:
        if self.type is SchemaType.STRING:
            try:
                payload.decode()
            except UnicodeDecodeError as error:
                raise InvalidPayload(f"the payload is not UTF-8 text: {error.reason}") from None
        elif self.type is SchemaType.NUMBER and len(payload) not in _NUMBER_LENGTHS:
            raise InvalidPayload(f"a number has 4 or 8 bytes, but the payload has {len(payload)}")
