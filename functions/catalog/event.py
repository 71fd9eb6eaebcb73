"""What S3 tells when objects were made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from sulina.errors import Refused


@dataclass(frozen=True, slots=True)
class Created:
    """One object that was made."""

    bucket: str
    key: str


def created(event: Mapping[str, Any]) -> list[Created]:
    """The objects of an event; other news are left out. Raises ``Refused`` for other events.

    S3 sends one event without records when the notification is set up.
    """
    if event.get("Event") == "s3:TestEvent":
        return []
    try:
        records = [each for each in event["Records"] if each["eventSource"] == "aws:s3"]
        return [
            Created(
                str(each["s3"]["bucket"]["name"]), unquote_plus(str(each["s3"]["object"]["key"]))
            )
            for each in records
            if str(each["eventName"]).startswith("ObjectCreated:")
        ]
    except (KeyError, TypeError):
        raise Refused(
            "the event is no notification of S3: let the bucket call this function"
        ) from None
