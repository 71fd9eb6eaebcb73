"""The lake: a bucket for closed ledgers as Parquet, and one for the files of jobs and queries.

A ledger's object is written once, only if it is absent, and deleted by retention. The bucket itself
refuses to let anybody else delete one, whatever their rights: tables name the same objects, and an
engine that cleans up a table would delete them. Versioning is for restoring objects that were
deleted by mistake.
"""

from __future__ import annotations

import pulumi_aws as aws

from infra.component import Component, Deployment
from infra.config.settings import StackSettings
from infra.lake.bucket import Bucket
from infra.security.iam import Statement, allow, deny
from infra.security.keys import USE_KEY, Keys

LEDGERS = "ledgers/"
ICEBERG = "iceberg/"
"""The metadata of topics as tables, written by the function ``catalog``."""
TABLES = "tables/"
"""Compacted tables and statistics, written by Spark jobs."""
LOOK = (
    "s3:GetBucketVersioning",
    "s3:GetLifecycleConfiguration",
    "s3:GetReplicationConfiguration",
)
"""What tells how long deleted objects are kept."""
_OWNERS = ("storage-task", "janitor")
"""The roles that delete objects of ledgers: by retention, and orphans."""
JOBS = "jobs/"
JOB_LOGS = "job-logs/"
RESULTS = "athena/"
MONITORING = "monitoring/"
"""Dashboards for Grafana."""


class LakeBuckets(Component):
    """Two buckets: ``lake`` for ledgers and tables, ``work`` for files that can be recreated."""

    def __init__(self, keys: Keys, parent: Deployment) -> None:
        super().__init__("Lake", parent)
        settings = self.settings
        self.key = keys.data.arn
        keep = settings.lake.keep_deleted_days
        self.lake = Bucket(
            self, "lake", self.key, _rules(settings), versions=keep > 0, denied=self._only_owners
        )
        self.work = Bucket(
            self,
            "work",
            self.key,
            [_expire(JOB_LOGS, settings.log_days), _expire(RESULTS, 7)],
            versions=False,
        )
        self.url = f"s3://{self.lake.name}"
        self.register_outputs({"url": self.url})

    def _only_owners(self, bucket: Bucket) -> Statement:
        account = f"arn:{self.region.partition}:iam::{self.region.account}"
        owners = [f"{account}:role/{self.named(each)}" for each in _OWNERS]
        return deny(
            "OnlyOwnersDelete",
            ["s3:DeleteObject", "s3:DeleteObjectVersion"],
            [bucket.objects(LEDGERS)],
            {"ArnNotEquals": {"aws:PrincipalArn": owners}},
        )

    def read(self, sid: str, bucket: Bucket, *prefixes: str) -> list[Statement]:
        """The permissions to read and list objects under prefixes."""
        return [
            allow(f"{sid}Read", ["s3:GetObject"], [bucket.objects(each) for each in prefixes]),
            allow(
                f"{sid}List",
                ["s3:ListBucket"],
                [bucket.arn],
                {"StringLike": {"s3:prefix": [f"{each}*" for each in prefixes]}},
            ),
            self.use_key(sid),
        ]

    def write(self, sid: str, bucket: Bucket, *prefixes: str) -> list[Statement]:
        """The permissions to read, list, write and delete objects under prefixes.

        Who writes asks first whether an object exists. For one that does not, S3 answers 404 only
        to those who may list the whole bucket, and 403 to others.
        """
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
                [bucket.objects(each) for each in prefixes],
            ),
            allow(f"{sid}List", ["s3:ListBucket", "s3:ListBucketMultipartUploads"], [bucket.arn]),
            self.use_key(sid),
        ]

    def look(self, sid: str, bucket: Bucket) -> Statement:
        """The permission to learn what a bucket keeps of deleted objects."""
        return allow(f"{sid}Look", list(LOOK), [bucket.arn])

    def use_key(self, sid: str) -> Statement:
        """The permission to use the buckets' key, through S3 only."""
        through = {"StringEquals": {"kms:ViaService": f"s3.{self.region.name}.amazonaws.com"}}
        return allow(f"{sid}Key", list(USE_KEY), [self.key], through)


def _rules(settings: StackSettings) -> list[aws.s3.BucketLifecycleConfigurationRuleArgsDict]:
    found: list[aws.s3.BucketLifecycleConfigurationRuleArgsDict] = []
    if settings.lake.cold_days:
        found.append(
            {
                "id": "old-ledgers",
                "status": "Enabled",
                "filter": {"prefix": LEDGERS},
                # Objects in this class are read as fast as before, without a restore.
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
