"""Arguments and results of the registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker_containers.schemas.errors import InvalidSchema
from sulina.metadata.keys.schemas import Compatibility, VersionRecord

MAX_TEXT: Final = 4_096
MAX_TAGS: Final = 32


@dataclass(frozen=True, slots=True)
class Schema:
    """One version of a subject."""

    id: int
    """The subject's id, shared by all its versions."""
    subject: str
    compatibility: Compatibility
    version: VersionRecord


@dataclass(frozen=True, slots=True)
class Registered:
    """The result of a registration."""

    id: int
    version: int
    fingerprint: str
    new: bool
    """Whether this call created the version; False if an equal one existed."""


@dataclass(frozen=True, slots=True)
class Remarks:
    """Comments on a version, without effect."""

    description: str = ""
    created_by: str = ""
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        texts = (self.description, self.created_by, *self.tags)
        if len(self.tags) > MAX_TAGS or any(len(text) > MAX_TEXT for text in texts):
            raise InvalidSchema(f"at most {MAX_TAGS} tags, and {MAX_TEXT} characters in each text")
