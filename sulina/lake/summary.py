"""The key-value metadata of an object's Parquet file.

All keys begin with ``sulina.`` and all values are text, so that any Parquet tool can show them.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sulina.errors import CorruptEntry, CorruptFrame, Refused
from sulina.names import TopicName
from sulina.wire.header import HEADER_SIZE, check_frame, parse_header

FORMAT: Final = "1"
TYPED_FORMAT: Final = "2"
"""Of objects that also have typed columns."""
SPARSE_FORMAT: Final = "3"
"""Of objects, with or without typed columns, that lack some of the offsets in their range."""
_FORMATS: Final = (FORMAT, TYPED_FORMAT, SPARSE_FORMAT)
_PREFIX: Final = "sulina."


@dataclass(frozen=True, slots=True)
class ObjectHead:
    """What is known about an object before its first frame."""

    topic: TopicName
    ledger: int
    first_offset: int
    generation: int = 0
    """0 for the object of a ledger, higher for one that replaces others."""
    last_offset: int = -1
    """Of an object that replaces others, else -1: it is part of its name."""


@dataclass(frozen=True, slots=True)
class ObjectSummary:
    """An object's contents. Without records, ``last_offset`` is ``first_offset`` - 1, except in an
    object that replaces others: that covers their offsets, whatever records it has."""

    topic: TopicName
    ledger: int
    first_offset: int
    last_offset: int
    records: int
    first_time_us: int
    """The earliest publish time, in microseconds since 1970; 0 without records."""
    last_time_us: int
    digest: str
    bytes: int
    """The size of the ledger's frames, including control frames."""
    size: int
    """The size of the object."""
    generation: int = 0
    """See ``ObjectHead``."""

    @property
    def is_sparse(self) -> bool:
        """Whether it lacks some of the offsets in its range."""
        return self.records != self.last_offset - self.first_offset + 1


@dataclass(frozen=True, slots=True)
class FilePart:
    """A range of the object's bytes, starting at the previous part's end or at 0."""

    end: int
    crc: int
    """CRC32C of the bytes."""


@dataclass(frozen=True, slots=True)
class TypedSummary:
    """The typed columns of an object."""

    subject_id: int
    """Of the subject in the schema registry, as in the column ``schema_id``."""
    versions: tuple[int, ...]
    """The versions of the subject whose table the columns are."""
    rejected: int
    """How many payloads do not fit their schema."""


@dataclass(frozen=True, slots=True)
class ObjectMetadata:
    """The decoded key-value metadata."""

    summary: ObjectSummary
    control_frames: tuple[bytes, ...]
    parts: tuple[FilePart, ...]
    """One per row group."""
    typed: TypedSummary | None = None
    """None for an object without typed columns."""


def to_metadata(metadata: ObjectMetadata) -> dict[str, str]:
    """Encode the metadata, without the object's size, which is not known yet."""
    summary, typed = metadata.summary, metadata.typed
    values = {
        "format": SPARSE_FORMAT if summary.is_sparse else TYPED_FORMAT if typed else FORMAT,
        "namespace": summary.topic.namespace,
        "topic": summary.topic.local,
        "ledger": summary.ledger,
        "first_offset": summary.first_offset,
        "last_offset": summary.last_offset,
        "records": summary.records,
        "first_time_us": summary.first_time_us,
        "last_time_us": summary.last_time_us,
        "bytes": summary.bytes,
        "digest": summary.digest,
        "control": b64encode(b"".join(metadata.control_frames)).decode(),
        "row_groups": " ".join(f"{part.end}:{part.crc:08x}" for part in metadata.parts),
    }
    if summary.generation:
        values["generation"] = summary.generation
    if typed is not None:
        values |= {
            "schema_id": typed.subject_id,
            "schema_versions": " ".join(map(str, typed.versions)),
            "rejected": typed.rejected,
        }
    return {_PREFIX + name: str(value) for name, value in values.items()}


def from_metadata(metadata: Mapping[bytes, bytes] | None, size: int) -> ObjectMetadata:
    """Decode the metadata of an object of ``size`` bytes.

    Raises ``Refused`` if it is not a ledger's object or has an unsupported format, and
    ``CorruptEntry`` if a value is invalid.
    """
    values = {key.decode(errors="replace"): value for key, value in (metadata or {}).items()}
    version = values.get(_PREFIX + "format")
    if version is None:
        raise Refused("this Parquet file is not a Sulina ledger: its metadata lacks sulina.*")
    if version.decode(errors="replace") not in _FORMATS:
        raise Refused(
            f"the object has format {version.decode(errors='replace')}, this version supports only "
            f"{', '.join(_FORMATS)}: use a newer version of Sulina"
        )
    try:
        return _read(_Values(values), size)
    except (KeyError, ValueError, CorruptFrame, Refused) as error:
        raise CorruptEntry(f"the object's metadata is damaged: {error}") from None


class _Values:
    def __init__(self, values: Mapping[str, bytes]) -> None:
        self._values = values

    def text(self, name: str) -> str:
        return self._values[_PREFIX + name].decode()

    def number(self, name: str) -> int:
        return int(self.text(name))

    def has(self, name: str) -> bool:
        return _PREFIX + name in self._values


def _read(values: _Values, size: int) -> ObjectMetadata:
    found = ObjectMetadata(
        ObjectSummary(
            topic=TopicName.parse(f"/{values.text('namespace')}/{values.text('topic')}"),
            ledger=values.number("ledger"),
            first_offset=values.number("first_offset"),
            last_offset=values.number("last_offset"),
            records=values.number("records"),
            first_time_us=values.number("first_time_us"),
            last_time_us=values.number("last_time_us"),
            digest=values.text("digest"),
            bytes=values.number("bytes"),
            size=size,
            generation=values.number("generation") if values.has("generation") else 0,
        ),
        tuple(_split(b64decode(values.text("control"), validate=True))),
        tuple(map(_part, values.text("row_groups").split())),
        _typed(values) if values.has("schema_id") else None,
    )
    stated = values.text("format")
    if found.summary.is_sparse != (stated == SPARSE_FORMAT):
        raise ValueError("its number of records does not fit its offsets")
    if stated != SPARSE_FORMAT and (found.typed is not None) != (stated == TYPED_FORMAT):
        raise ValueError("its typed columns do not fit its format")
    return found


def _typed(values: _Values) -> TypedSummary:
    return TypedSummary(
        values.number("schema_id"),
        tuple(map(int, values.text("schema_versions").split())),
        values.number("rejected"),
    )


def _part(text: str) -> FilePart:
    end, crc = text.split(":")
    return FilePart(int(end), int(crc, 16))


def _split(control: bytes) -> Sequence[bytes]:
    frames: list[bytes] = []
    at = 0
    while at < len(control):
        end = at + parse_header(control[at : at + HEADER_SIZE]).size
        frames.append(control[at:end])
        check_frame(frames[-1])
        at = end
    return frames
