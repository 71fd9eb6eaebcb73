"""A plain S3 client for an emulator, for what has to be there before Sulina comes."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from localstack.emulators.credentials import Credentials


def s3_client(url: str, credentials: Credentials) -> Any:
    """boto3's client for S3 at ``url``. Calls block, a minute at most, and are tried thrice."""
    return boto3.client(
        "s3",
        endpoint_url=url,
        aws_access_key_id=credentials.access_key,
        aws_secret_access_key=credentials.secret_key,
        region_name=credentials.region,
        config=Config(
            connect_timeout=10,
            read_timeout=60,
            retries={"total_max_attempts": 3, "mode": "standard"},
            s3={"addressing_style": "path"},
        ),
    )


def make_bucket(url: str, credentials: Credentials, name: str) -> None:
    """Make a bucket, if it is not there."""
    client = s3_client(url, credentials)
    try:
        client.create_bucket(Bucket=name)
    except ClientError as error:
        if not error.response["Error"]["Code"].startswith("BucketAlready"):
            raise
