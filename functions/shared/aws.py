"""AWS clients with timeouts, one per service for the lifetime of the process."""

from __future__ import annotations

from functools import cache
from typing import Any

import boto3
from botocore.config import Config

_CONFIG = Config(
    connect_timeout=3,
    read_timeout=30,
    retries={"mode": "standard", "total_max_attempts": 4},
)


@cache
def client(service: str) -> Any:
    """The client of a service, by its boto3 name."""
    return boto3.client(service, config=_CONFIG)


def code_of(error: Any) -> str:
    """The error code in AWS's response."""
    return str(error.response.get("Error", {}).get("Code", ""))
