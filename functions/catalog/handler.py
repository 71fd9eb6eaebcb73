"""The function ``catalog``: registers the partition of a new object in Glue.

Only Parquet objects whose keys follow :mod:`sulina.lake.layout` are registered; others are logged
and skipped. Repeating a call changes nothing. If Glue or S3 fails, the call fails, and Lambda
retries it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote_plus

from botocore.exceptions import ClientError

from functions.shared.aws import client, code_of
from functions.shared.environment import required
from functions.shared.lake import LakeLocation, parse_lake
from functions.shared.partitions import GluePartitions, PartitionName
from sulina.errors import NotFound, Refused
from sulina.lake.layout import ObjectName, parse_key

_MAGIC: Final = b"PAR1"
_TAIL: Final = 8
"""The last bytes of a Parquet file: the length of its footer, and the magic number."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CreatedObject:
    """An object that was created in a bucket."""

    bucket: str
    key: str


def handler(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """Register the objects of an event; returns which were registered, known and refused."""
    lake = parse_lake(required("SULINA_LAKE"))
    partitions = GluePartitions(
        client("glue"), required("SULINA_GLUE_DATABASE"), required("SULINA_GLUE_TABLE"), lake
    )
    registered: list[str] = []
    known = 0
    refused: list[str] = []
    for each in created(event):
        try:
            name = check(each, lake)
        except (NotFound, Refused) as error:
            _log.warning("skipped an object: %s", error)
            refused.append(each.key)
            continue
        if partitions.add(PartitionName.of(name)):
            _log.info("registered the partition of %s", each.key)
            registered.append(each.key)
        else:
            known += 1
    return {"registered": registered, "known": known, "refused": refused}


def created(event: Mapping[str, Any]) -> list[CreatedObject]:
    """The objects created, according to an S3 event. Raises ``Refused`` for other events.

    S3 sends a test event without records when the notification is configured.
    """
    if event.get("Event") == "s3:TestEvent":
        return []
    try:
        records = [each for each in event["Records"] if each["eventSource"] == "aws:s3"]
        return [
            CreatedObject(
                str(each["s3"]["bucket"]["name"]), unquote_plus(str(each["s3"]["object"]["key"]))
            )
            for each in records
            if str(each["eventName"]).startswith("ObjectCreated:")
        ]
    except (KeyError, TypeError):
        raise Refused(
            "the event is not an S3 notification: configure the bucket to call this function"
        ) from None


def check(made: CreatedObject, lake: LakeLocation) -> ObjectName:
    """Parse and check an object.

    Raises ``Refused`` if it is not a ledger's object, ``NotFound`` if it no longer exists.
    """
    if made.bucket != lake.bucket:
        raise Refused(f"{made.bucket} is not the lake's bucket, which is {lake.bucket}")
    name = parse_key(lake.relative(made.key))
    try:
        found = client("s3").get_object(Bucket=made.bucket, Key=made.key, Range=f"bytes=-{_TAIL}")
    except ClientError as error:
        if code_of(error) in ("NoSuchKey", "404"):
            raise NotFound(f"{made.key} no longer exists") from None
        if code_of(error) == "InvalidRange":  # the object is shorter than the range: empty
            raise Refused(f"{made.key} is empty") from None
        raise
    tail = found["Body"].read()
    if len(tail) < _TAIL or not tail.endswith(_MAGIC):
        raise Refused(f"{made.key} is not Parquet: it ends with {tail!r}")
    return name
