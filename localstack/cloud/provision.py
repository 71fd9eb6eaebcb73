"""Creates what a deployment has before the first message: the bucket, and the settings."""

from __future__ import annotations

from typing import Any, Final

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from localstack.emulators.s3 import make_bucket, s3_client
from localstack.emulators.server import EmulatorServer
from sulina.errors import Unavailable

PREFIX: Final = "sulina"
"""The prefix of objects in the bucket."""
_STALE_DAYS: Final = 7


def tier_url(server: EmulatorServer, bucket: str) -> str:
    """The URL of the tier for closed ledgers."""
    region = server.credentials.region
    return f"s3://{bucket}/{PREFIX}?endpoint={server.url}&region={region}"


def make_lake(server: EmulatorServer, bucket: str) -> None:
    """Create the bucket, with a rule that deletes parts of unfinished uploads.

    Raises ``Unavailable`` if the emulator refuses.
    """
    try:
        make_bucket(server.url, server.credentials, bucket)
        client = s3_client(server.url, server.credentials)
        client.put_bucket_lifecycle_configuration(
            Bucket=bucket,
            LifecycleConfiguration={
                "Rules": [
                    {
                        "ID": "unfinished",
                        "Status": "Enabled",
                        "Filter": {"Prefix": ""},
                        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": _STALE_DAYS},
                    }
                ]
            },
        )
    except (BotoCoreError, ClientError) as error:
        raise Unavailable(f"creating the bucket {bucket} failed: {error}") from error


def publish_settings(server: EmulatorServer, settings: dict[str, str]) -> None:
    """Store parameters under ``/sulina/``, with which functions and jobs find the cluster."""
    client: Any = boto3.client(
        "ssm",
        endpoint_url=server.url,
        aws_access_key_id=server.credentials.access_key,
        aws_secret_access_key=server.credentials.secret_key,
        region_name=server.credentials.region,
    )
    try:
        for name, value in settings.items():
            client.put_parameter(Name=f"/sulina/{name}", Value=value, Type="String", Overwrite=True)
    except (BotoCoreError, ClientError) as error:
        raise Unavailable(f"storing the settings failed: {error}") from error
