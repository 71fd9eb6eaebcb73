"""The events of the function ``catalog``: notifications of S3, and calls of the schedule."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote_plus

from functions.shared.lake import LakeLocation, parse_lake
from sulina.errors import Refused
from sulina.lake.layout import is_notice, parse_key
from sulina.names import TopicName

_SCHEDULED: Final = frozenset({"scheduled", "execution"})
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ScheduledCall:
    """A call for all topics."""

    execution: str


def call_of(
    event: Mapping[str, Any], lake: str, refused: list[str]
) -> ScheduledCall | list[TopicName]:
    """A call of the schedule, or the topics of the objects that a notification of S3 names.

    Keys that are not those of a ledger's object go to ``refused``. S3 sends a test event without
    records when the notification is configured. Raises ``Refused`` for other events.
    """
    if event.keys() == _SCHEDULED:
        return ScheduledCall(str(event["execution"]))
    if event.get("Event") == "s3:TestEvent":
        return []
    try:
        keys = [
            (str(each["s3"]["bucket"]["name"]), unquote_plus(str(each["s3"]["object"]["key"])))
            for each in event["Records"]
            if each["eventSource"] == "aws:s3"
            if str(each["eventName"]).startswith("ObjectCreated:")
        ]
        # A notice belongs to an object that follows it.
        keys = [(bucket, key) for bucket, key in keys if not is_notice(key)]
    except (KeyError, TypeError):
        raise Refused(
            "the event is neither an S3 notification nor a call of the schedule: configure the "
            "bucket and the schedule to call this function"
        ) from None
    location = parse_lake(lake)
    topics: set[TopicName] = set()
    for bucket, key in keys:
        try:
            topics.add(_topic(location, bucket, key))
        except Refused as error:
            _log.warning("skipped an object: %s", error)
            refused.append(key)
    return sorted(topics)


def _topic(lake: LakeLocation, bucket: str, key: str) -> TopicName:
    if bucket != lake.bucket:
        raise Refused(f"{bucket} is not the lake's bucket, which is {lake.bucket}")
    name = parse_key(lake.relative(key))
    return TopicName(name.namespace, name.topic)
