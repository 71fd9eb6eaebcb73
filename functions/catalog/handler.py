"""The function ``catalog``: a new object of a ledger makes its partition known to the catalog.

Only objects that are where :mod:`sulina.lake.layout` puts them, and that end as Parquet does, are
taken; anything else is refused, said in the log, and leaves the catalog as it is. Doing it twice
does it once. What may pass (a busy catalog) fails the call, which Lambda then repeats.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from botocore.exceptions import ClientError

from functions.catalog.event import Created, created
from functions.parts.aws import client, code_of
from functions.parts.environment import needed
from functions.parts.lake import Lake, parse_lake
from functions.parts.partitions import PartitionName, Partitions
from sulina.errors import NotFound, Refused
from sulina.lake.layout import ObjectName, parse_key

_MAGIC: Final = b"PAR1"
_TAIL: Final = 8
"""Bytes at the end of a Parquet file: the length of its footer, and the magic."""
_log = logging.getLogger(__name__)


def handler(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """Take in the objects of an event; returns what became of them."""
    lake = parse_lake(needed("SULINA_LAKE"))
    partitions = Partitions(
        client("glue"), needed("SULINA_GLUE_DATABASE"), needed("SULINA_GLUE_TABLE"), lake
    )
    registered: list[str] = []
    known = 0
    refused: list[str] = []
    for each in created(event):
        try:
            name = checked(each, lake)
        except (NotFound, Refused) as error:
            _log.warning("refused: %s", error)
            refused.append(each.key)
            continue
        if partitions.add(PartitionName.of(name)):
            _log.info("registered the partition of %s", each.key)
            registered.append(each.key)
        else:
            known += 1
    return {"registered": registered, "known": known, "refused": refused}


def checked(made: Created, lake: Lake) -> ObjectName:
    """What the object is. Raises ``Refused`` if it is none of ours, ``NotFound`` if it is gone."""
    if made.bucket != lake.bucket:
        raise Refused(f"{made.bucket} is not the bucket of the lake, which is {lake.bucket}")
    name = parse_key(lake.relative(made.key))
    try:
        found = client("s3").get_object(Bucket=made.bucket, Key=made.key, Range=f"bytes=-{_TAIL}")
    except ClientError as error:
        if code_of(error) in ("NoSuchKey", "404"):
            raise NotFound(f"{made.key} is not there any more") from None
        if code_of(error) == "InvalidRange":  # an empty object has no end
            raise Refused(f"{made.key} is empty") from None
        raise
    tail = found["Body"].read()
    if len(tail) < _TAIL or not tail.endswith(_MAGIC):
        raise Refused(f"{made.key} is not Parquet: it ends with {tail!r}")
    return name
