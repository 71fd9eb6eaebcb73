"""The columns of an object, a row for each record, and how Parquet stores each of them.

Every column but ``frame`` is for everyone. ``frame`` stands on the first record of each frame and
holds what the other columns do not tell of it (see ``frame_value``), so that replays rebuild the
very frames that were published; it is null on all other rows.

Integers that a frame keeps unsigned (``schema_id``, ``schema_version``) are stored with the same
bits as signed ones, because Spark has no unsigned types.
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

TIME_TYPE: Final = pa.timestamp("us", tz="UTC")
ATTRIBUTES_TYPE: Final = pa.map_(pa.string(), pa.string())

OBJECT_SCHEMA: Final[pa.Schema] = pa.schema(
    [
        pa.field(OFFSET, pa.int64(), nullable=False),
        pa.field(PUBLISH_TIME, TIME_TYPE, nullable=False),
        pa.field(PRODUCER, pa.string(), nullable=False),
        pa.field(SEQUENCE, pa.int64(), nullable=False),
        pa.field(KEY, pa.binary()),
        # Null only where the producer sent a frame that no reader can open.
        pa.field(PAYLOAD, pa.binary()),
        pa.field(ATTRIBUTES, ATTRIBUTES_TYPE),
        pa.field(SCHEMA_ID, pa.int64(), nullable=False),
        pa.field(SCHEMA_VERSION, pa.int32(), nullable=False),
        pa.field(DELIVERY_TIME, TIME_TYPE),
        pa.field(FRAME, pa.binary()),
    ]
)
"""What every reader of an object sees."""

RECORD_SCHEMA: Final[pa.Schema] = OBJECT_SCHEMA.remove(OBJECT_SCHEMA.get_field_index(FRAME))
"""The same without ``frame``: what analytics are interested in."""

WRITTEN_SCHEMA: Final[pa.Schema] = OBJECT_SCHEMA.set(
    OBJECT_SCHEMA.get_field_index(PRODUCER),
    pa.field(PRODUCER, pa.dictionary(pa.int32(), pa.string()), nullable=False),
)
"""What is made from frames: a producer's name is there once. Parquet stores it the same way."""

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
    # What readers select by, and what is often null throughout; others cost more than they help.
    "write_statistics": [OFFSET, PUBLISH_TIME, KEY, f"{ATTRIBUTES}.key_value.key", DELIVERY_TIME],
    "data_page_size": 4 << 20,  # a decompressor is made for each page: the fewer, the better
    "write_page_checksum": True,  # for readers that check them; ours go by whole row groups
    "store_schema": False,  # the Parquet types say it all, and producers read as plain strings
}
"""How ``pyarrow.parquet`` writes an object."""
