"""The columns of an object, with one row per record, and how Parquet stores them.

``frame`` is for replays, all other columns for any reader. It is set on the first record of each
frame and null on all others, and contains what is needed beyond the other columns to rebuild the
exact frame that was published (see ``frame_value``).

Unsigned integers of a frame (``schema_id``, ``schema_version``) are stored as signed ones with the
same bits, because Spark has no unsigned types.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

OFFSET: Final = "offset"
PUBLISH_TIME: Final = "publish_time"
PRODUCER: Final = "producer"
SEQUENCE: Final = "sequence"
KEY: Final = "key"
PAYLOAD: Final = "payload"
ATTRIBUTES: Final = "attributes"
SCHEMA_ID: Final = "schema_id"
SCHEMA_VERSION: Final = "schema_version"
DELIVERY_TIME: Final = "delivery_time"
FRAME: Final = "frame"
VALUE: Final = "value"
"""The payload as a struct, in objects of topics with a schema and in typed reads."""
VALUE_ERROR: Final = "value_error"
"""Why a payload does not fit its schema."""

FIELD_ID: Final = b"PARQUET:field_id"
"""The key of Arrow's metadata under which Parquet's writer finds field ids."""
_KEY_ID, _ITEM_ID, VALUE_ID, VALUE_ERROR_ID = 12, 13, 14, 15
"""Ids after those of ``OBJECT_SCHEMA``, which count from 1. Typed columns have ids from 1,000 on,
see ``sulina.lake.typed``; those between are free for columns that tables add."""

TIME_TYPE: Final = pa.timestamp("us", tz="UTC")
ATTRIBUTES_TYPE: Final = pa.map_(pa.string(), pa.string())

OBJECT_SCHEMA: Final[pa.Schema] = pa.schema(
    [
        pa.field(OFFSET, pa.int64(), nullable=False),
        pa.field(PUBLISH_TIME, TIME_TYPE, nullable=False),
        pa.field(PRODUCER, pa.string(), nullable=False),
        pa.field(SEQUENCE, pa.int64(), nullable=False),
        pa.field(KEY, pa.binary()),
        # Null only where the producer sent a frame that cannot be decoded.
        pa.field(PAYLOAD, pa.binary()),
        pa.field(ATTRIBUTES, ATTRIBUTES_TYPE),
        pa.field(SCHEMA_ID, pa.int64(), nullable=False),
        pa.field(SCHEMA_VERSION, pa.int32(), nullable=False),
        pa.field(DELIVERY_TIME, TIME_TYPE),
        pa.field(FRAME, pa.binary()),
    ]
)
"""The schema that readers see. The field id of each column is its place, counted from 1."""

RECORD_SCHEMA: Final[pa.Schema] = OBJECT_SCHEMA.remove(OBJECT_SCHEMA.get_field_index(FRAME))
"""The same without ``frame``, for analytics."""


def with_id(field: pa.Field, id_: int) -> pa.Field:
    """``field`` with a field id for Parquet's writer."""
    return field.with_metadata({FIELD_ID: str(id_)})


def _written() -> pa.Schema:
    attributes = pa.map_(
        with_id(ATTRIBUTES_TYPE.key_field, _KEY_ID), with_id(ATTRIBUTES_TYPE.item_field, _ITEM_ID)
    )
    types = {PRODUCER: pa.dictionary(pa.int32(), pa.string()), ATTRIBUTES: attributes}
    return pa.schema(
        [
            with_id(field.with_type(types.get(field.name, field.type)), place)
            for place, field in enumerate(OBJECT_SCHEMA, 1)
        ]
    )


WRITTEN_SCHEMA: Final[pa.Schema] = _written()
"""The schema for writing: producers are dictionary-encoded, as Parquet stores them anyway, and
columns have field ids."""

_DICTIONARY_COLUMNS: Final = [
    PRODUCER,
    KEY,
    f"{ATTRIBUTES}.key_value.key",
    f"{ATTRIBUTES}.key_value.value",
    SCHEMA_ID,
    SCHEMA_VERSION,
    DELIVERY_TIME,
]
_RISING_COLUMNS: Final = [OFFSET, PUBLISH_TIME, SEQUENCE]

WRITER_OPTIONS: Final[dict[str, Any]] = {
    "compression": "zstd",
    "compression_level": 1,  # higher levels take more time than they save bytes
    "use_dictionary": _DICTIONARY_COLUMNS,
    "column_encoding": dict.fromkeys(_RISING_COLUMNS, "DELTA_BINARY_PACKED"),
    # Columns that readers filter by or that are often all null; for others it is not worth it.
    "write_statistics": [OFFSET, PUBLISH_TIME, KEY, f"{ATTRIBUTES}.key_value.key", DELIVERY_TIME],
    "data_page_size": 4 << 20,  # one decompressor per page: the fewer, the faster
    "write_page_checksum": True,  # for other readers; ours check whole row groups
    "store_schema": False,  # Parquet's types suffice, and producers are read as strings
}
"""Options for ``pyarrow.parquet.ParquetWriter``."""
