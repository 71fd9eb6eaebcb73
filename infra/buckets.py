"""A bucket as every bucket here is: private, encrypted, owned, reached by TLS alone."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from infra.policies import deny, document
from infra.tier import Tier


class Bucket(pulumi.ComponentResource):
    """A bucket, its guards, and its rules about old objects."""

    def __init__(
        self,
        tier: Tier,
        name: str,
        key: pulumi.Input[str],
        rules: Sequence[aws.s3.BucketLifecycleConfigurationRuleArgsDict],
        versions: bool,
    ) -> None:
        super().__init__("sulina:infra:Bucket", name, None, tier.within())
        place, settings = tier.place, tier.settings
        # Names of buckets are shared by the whole world: the account makes ours our own.
        self.name = f"{settings.prefix}-{name}-{place.account}-{place.region}"
        self.arn = place.bucket_arn(self.name)
        inside = pulumi.ResourceOptions(parent=self)
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
            opts=inside,
        )
        aws.s3.BucketOwnershipControls(
            name,
            bucket=self.bucket.id,
            rule={"object_ownership": "BucketOwnerEnforced"},
            opts=inside,
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
                    # One question to KMS for many objects, instead of one each.
                    "bucket_key_enabled": True,
                }
            ],
            opts=inside,
        )
        if versions:
            aws.s3.BucketVersioning(
                name,
                bucket=self.bucket.id,
                versioning_configuration={"status": "Enabled"},
                opts=inside,
            )
        aws.s3.BucketLifecycleConfiguration(
            name,
            bucket=self.bucket.id,
            rules=[
                {
                    "id": "uploads-that-were-given-up",
                    "status": "Enabled",
                    "filter": {"prefix": ""},
                    "abort_incomplete_multipart_upload": {"days_after_initiation": 2},
                },
                *rules,
            ],
            opts=inside,
        )
        tls = deny(
            "TlsAlone",
            ["s3:*"],
            [self.arn, f"{self.arn}/*"],
            {"Bool": {"aws:SecureTransport": "false"}},
        )
        aws.s3.BucketPolicy(
            name,
            bucket=self.bucket.id,
            policy=document([{**tls, "Principal": "*"}]),
            opts=inside,
        )
        self.register_outputs({"name": self.bucket.id})

    def below(self, prefix: str) -> str:
        """The ARN of all objects whose keys begin with a prefix."""
        return f"{self.arn}/{prefix}*"
