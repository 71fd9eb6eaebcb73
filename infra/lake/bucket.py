"""A private, encrypted bucket that accepts only TLS connections."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pulumi
import pulumi_aws as aws

from infra.component import Component
from infra.security.iam import Statement, deny, document


class Bucket(pulumi.ComponentResource):
    """A bucket, its access restrictions, and its lifecycle rules."""

    def __init__(
        self,
        component: Component,
        name: str,
        key: pulumi.Input[str],
        rules: Sequence[aws.s3.BucketLifecycleConfigurationRuleArgsDict],
        versions: bool,
        denied: Callable[[Bucket], Statement] | None = None,
    ) -> None:
        """``denied`` is what the bucket refuses to everybody, besides connections without TLS."""
        super().__init__("sulina:infra:Bucket", name, None, component.within())
        region, settings = component.region, component.settings
        # Bucket names are global: account and region make this one unique.
        self.name = f"{settings.prefix}-{name}-{region.account}-{region.name}"
        self.arn = region.bucket_arn(self.name)
        options = pulumi.ResourceOptions(parent=self)
        self.bucket = aws.s3.Bucket(
            name,
            bucket=self.name,
            force_destroy=not settings.protect,
            opts=pulumi.ResourceOptions(parent=self, protect=settings.protect),
        )
        aws.s3.BucketPublicAccessBlock(
            name,
            bucket=self.bucket.id,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=options,
        )
        aws.s3.BucketOwnershipControls(
            name,
            bucket=self.bucket.id,
            rule={"object_ownership": "BucketOwnerEnforced"},
            opts=options,
        )
        aws.s3.BucketServerSideEncryptionConfiguration(
            name,
            bucket=self.bucket.id,
            rules=[
                {
                    "apply_server_side_encryption_by_default": {
                        "sse_algorithm": "aws:kms",
                        "kms_master_key_id": key,
                    },
                    # One KMS request for many objects instead of one per object.
                    "bucket_key_enabled": True,
                }
            ],
            opts=options,
        )
        if versions:
            aws.s3.BucketVersioning(
                name,
                bucket=self.bucket.id,
                versioning_configuration={"status": "Enabled"},
                opts=options,
            )
        aws.s3.BucketLifecycleConfiguration(
            name,
            bucket=self.bucket.id,
            rules=[
                {
                    "id": "abandoned-uploads",
                    "status": "Enabled",
                    "filter": {"prefix": ""},
                    "abort_incomplete_multipart_upload": {"days_after_initiation": 2},
                },
                *rules,
            ],
            opts=options,
        )
        tls = deny(
            "TlsOnly",
            ["s3:*"],
            [self.arn, f"{self.arn}/*"],
            {"Bool": {"aws:SecureTransport": "false"}},
        )
        aws.s3.BucketPolicy(
            name,
            bucket=self.bucket.id,
            policy=document(
                [
                    {**statement, "Principal": "*"}
                    for statement in (tls, *([denied(self)] if denied is not None else ()))
                ]
            ),
            opts=options,
        )
        self.register_outputs({"name": self.bucket.id})

    def objects(self, prefix: str) -> str:
        """The ARN of all objects whose keys begin with ``prefix``."""
        return f"{self.arn}/{prefix}*"
