"""S3's event notifications: calls the functions that a bucket's configuration names.

LocalStack and SeaweedFS can't call functions of another emulator, so the buckets are listed. What
is in a bucket at the start counts as new: with SeaweedFS, objects outlive the catalog.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote_plus

from localstack.cloud.functions import FunctionRunner
from localstack.deployment.account import BUCKET_SETTINGS
from sulina.runtime.seam import Clock

_POLL_SECONDS: Final = 1.0
_BATCH: Final = 50


@dataclass(slots=True)
class Notification:
    """One function to call for new objects with a prefix and a suffix."""

    bucket: str
    function: str
    prefix: str
    suffix: str
    seen: set[str] = field(default_factory=set)
    """The keys of objects for which it was called."""


def read_notifications(account: Any) -> list[Notification]:
    """Those of all buckets. Blocks."""
    s3 = account.client(BUCKET_SETTINGS)
    found = []
    for bucket in (each["Name"] for each in s3.list_buckets()["Buckets"]):
        config = s3.get_bucket_notification_configuration(Bucket=bucket)
        for each in config.get("LambdaFunctionConfigurations", ()):
            rules = each.get("Filter", {}).get("Key", {}).get("FilterRules", ())
            only = {rule["Name"].lower(): rule["Value"] for rule in rules}
            function = each["LambdaFunctionArn"].rpartition(":")[2]
            found.append(
                Notification(bucket, function, only.get("prefix", ""), only.get("suffix", ""))
            )
    return found


async def watch_bucket(
    account: Any, notification: Notification, functions: FunctionRunner, clock: Clock
) -> None:
    """Call the function for new objects until cancelled."""
    while True:
        keys = await asyncio.to_thread(lambda: list(_new(account, notification)))
        for start in range(0, len(keys), _BATCH):
            batch = keys[start : start + _BATCH]
            await functions.call_later(notification.function, _event(notification.bucket, batch))
        notification.seen.update(keys)
        await clock.sleep(_POLL_SECONDS)


def _new(account: Any, notification: Notification) -> Iterator[str]:
    pages = account.client("s3").get_paginator("list_objects_v2")
    for page in pages.paginate(Bucket=notification.bucket, Prefix=notification.prefix):
        for each in page.get("Contents", ()):
            if each["Key"].endswith(notification.suffix) and each["Key"] not in notification.seen:
                yield each["Key"]


def _event(bucket: str, keys: list[str]) -> bytes:
    records = [
        {
            "eventSource": "aws:s3",
            "eventName": "ObjectCreated:Put",
            "s3": {"bucket": {"name": bucket}, "object": {"key": quote_plus(key, safe="/")}},
        }
        for key in keys
    ]
    return json.dumps({"Records": records}).encode()
