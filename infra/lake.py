"""The lake: closed ledgers as Parquet in S3, and a bucket for what jobs and queries leave behind.

Objects of ledgers are written once, only if absent, and deleted by retention. So versions are not
for changes: they keep a deleted object for some days, in case it should not have been deleted.
"""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from infra.buckets import Bucket
from infra.config import Settings
from infra.keys import USE_KEY, Keys
from infra.policies import Statement, allow
from infra.tier import Place, Tier

LEDGERS = "ledgers/"
TABLES = "tables/"
"""What jobs make of ledgers: compacted tables and statistics."""
JOBS = "jobs/"
JOB_LOGS = "job-logs/"
RESULTS = "athena/"


class LakeBuckets(Tier):
    """Two buckets: ``lake`` for what must stay, ``work`` for what may go."""

    def __init__(
        self, settings: Settings, place: Place, keys: Keys, parent: pulumi.Resource
    ) -> None:
        super().__init__("Lake", settings, place, parent)
        self.key = keys.data.arn
        keep = settings.lake.keep_deleted_days
        self.lake = Bucket(self, "lake", self.key, _rules(settings), versions=keep > 0)
        self.work = Bucket(
            self,
            "work",
            self.key,
            [_expire(JOB_LOGS, settings.log_days), _expire(RESULTS, 7)],
            versions=False,
        )
        self.url = f"s3://{self.lake.name}"
        self.register_outputs({"url": self.url})

    def read(self, sid: str, bucket: Bucket, *prefixes: str) -> list[Statement]:
        """What reading below some prefixes takes."""
        return [
            allow(f"{sid}Read", ["s3:GetObject"], [bucket.below(each) for each in prefixes]),
            self._list(sid, bucket, prefixes),
            self.use_key(sid),
        ]

    def write(self, sid: str, bucket: Bucket, *prefixes: str) -> list[Statement]:
        """What reading, writing and deleting below some prefixes takes."""
        return [
            allow(
                f"{sid}Write",
                [
                    "s3:GetObject",
                    "s3:PutObject",
                    "s3:DeleteObject",
                    "s3:AbortMultipartUpload",
                    "s3:ListMultipartUploadParts",
                ],
                [bucket.below(each) for each in prefixes],
            ),
            self._list(sid, bucket, prefixes),
            allow(f"{sid}Uploads", ["s3:ListBucketMultipartUploads"], [bucket.arn]),
            self.use_key(sid),
        ]

    def use_key(self, sid: str) -> Statement:
        """The key of the buckets, and only through S3."""
        through = {"StringEquals": {"kms:ViaService": f"s3.{self.place.region}.amazonaws.com"}}
        return allow(f"{sid}Key", list(USE_KEY), [self.key], through)

    def _list(self, sid: str, bucket: Bucket, prefixes: tuple[str, ...]) -> Statement:
        only = {"StringLike": {"s3:prefix": [f"{each}*" for each in prefixes]}}
        return allow(f"{sid}List", ["s3:ListBucket"], [bucket.arn], only)


def _rules(settings: Settings) -> list[aws.s3.BucketLifecycleConfigurationRuleArgsDict]:
    found: list[aws.s3.BucketLifecycleConfigurationRuleArgsDict] = []
    if settings.lake.cold_days:
        found.append(
            {
                "id": "old-ledgers-cost-less",
                "status": "Enabled",
                "filter": {"prefix": LEDGERS},
                # Reads of old ledgers stay as fast as ever: this class asks for no restore.
                "transitions": [
                    {"days": settings.lake.cold_days, "storage_class": "INTELLIGENT_TIERING"}
                ],
            }
        )
    if settings.lake.keep_deleted_days:
        found.append(
            {
                "id": "deleted-objects",
                "status": "Enabled",
                "filter": {"prefix": ""},
                "noncurrent_version_expiration": {
                    "noncurrent_days": settings.lake.keep_deleted_days
                },
                "expiration": {"expired_object_delete_marker": True},
            }
        )
    return found


def _expire(prefix: str, days: int) -> aws.s3.BucketLifecycleConfigurationRuleArgsDict:
    return {
        "id": f"old-{prefix.rstrip('/')}",
        "status": "Enabled",
        "filter": {"prefix": prefix},
        "expiration": {"days": days},
    }
