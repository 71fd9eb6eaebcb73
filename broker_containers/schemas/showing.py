"""Payloads of binary formats as JSON, for people."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

from broker_containers.schemas.avro import Avro
from broker_containers.schemas.format import Format
from broker_containers.schemas.protobuf import Protobuf
from broker_containers.schemas.steps import at_most, payload_steps


def as_json(understood: Format, payload: bytes) -> str | None:
    """The JSON of a payload; None if its format is not a binary one.

    The work is bounded as in a check of the payload. Raises ``InvalidPayload`` and
    ``TooManySteps``.
    """
    if not isinstance(understood, Avro | Protobuf):
        return None
    with at_most(payload_steps(len(payload))):
        understood.check(payload)  # fastavro accepts bytes that are not Avro, and may never end
    if isinstance(understood, Protobuf):
        from google.protobuf.json_format import MessageToJson

        return MessageToJson(
            understood.read(payload),
            preserving_proto_field_name=True,
            descriptor_pool=understood.message.file.pool,
        )
    import fastavro

    value = fastavro.schemaless_reader(io.BytesIO(payload), understood.root, None)
    return json.dumps(value, indent=2, default=_written, ensure_ascii=False)


def _written(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
