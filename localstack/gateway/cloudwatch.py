"""Translates the protocol in which Pulumi's plugin talks to CloudWatch, and which moto lacks.

Requests and responses are CBOR (Smithy RPC v2). Each request is repeated to moto with boto3.
"""

from __future__ import annotations

import struct
from datetime import datetime
from typing import Any

from botocore import xform_name
from botocore.exceptions import ClientError
from botocore.parsers import RpcV2CBORParser

from localstack.deployment.account import EmulatedAccount
from localstack.gateway.server import Answer, Call

_HEADERS = {"Content-Type": "application/cbor", "smithy-protocol": "rpc-v2-cbor"}


class CloudWatchCbor:
    """Answers CloudWatch's operations with what moto answers to boto3."""

    def __init__(self, moto: EmulatedAccount) -> None:
        self._client = moto.client("cloudwatch")

    def before(self, call: Call) -> Answer | None:
        """Answer requests to this service."""
        if call.service != "monitoring" or "/operation/" not in call.path:
            return None
        operation = call.path.rpartition("/")[2]
        asked = decoded(call.body) if call.body else {}
        try:
            said = getattr(self._client, xform_name(operation))(**asked)
        except ClientError as error:
            about = error.response["Error"]
            body = encoded({"__type": about["Code"], "message": about["Message"]})
            return Answer(error.response["ResponseMetadata"]["HTTPStatusCode"], _HEADERS, body)
        del said["ResponseMetadata"]
        return Answer(200, _HEADERS, encoded(said))

    def after(self, call: Call, answer: Answer) -> Answer:
        """Nothing to add."""
        return answer


def decoded(body: bytes) -> Any:
    """The value of a CBOR document."""
    parser = RpcV2CBORParser()
    return parser.parse_data_item(parser.get_peekable_stream_from_bytes(body))


def encoded(value: Any) -> bytes:
    """A value as CBOR: maps, lists, text, numbers, booleans and times."""
    match value:
        case None:
            return b"\xf6"
        case bool():
            return b"\xf5" if value else b"\xf4"
        case int():
            return _head(0, value) if value >= 0 else _head(1, -1 - value)
        case float():
            return b"\xfb" + struct.pack(">d", value)
        case datetime():
            return b"\xc1" + encoded(value.timestamp())
        case str():
            text = value.encode()
            return _head(3, len(text)) + text
        case list():
            return _head(4, len(value)) + b"".join(map(encoded, value))
        case dict():
            parts = (encoded(name) + encoded(each) for name, each in value.items())
            return _head(5, len(value)) + b"".join(parts)
    raise TypeError(f"{type(value).__name__} is not expected in an answer")


def _head(major: int, size: int) -> bytes:
    """The first bytes of a data item: its type, and its size or value in eight bytes."""
    return bytes([major << 5 | 27]) + struct.pack(">Q", size)
