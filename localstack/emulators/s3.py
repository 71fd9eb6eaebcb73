"""An S3 client for emulators, to create buckets."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from localstack.emulators.credentials import Credentials


def s3_client(url: str, credentials: Credentials) -> Any:
    """A boto3 S3 client for ``url``, with timeouts and at most three attempts per call."""
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
    """Create a bucket if it does not exist."""
    client = s3_client(url, credentials)
    try:
        client.create_bucket(Bucket=name)
    except ClientError as error:
        if not error.response["Error"]["Code"].startswith("BucketAlready"):
            raise
