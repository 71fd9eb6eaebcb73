"""Clients of AWS: one of each for the life of the function's process, with bounded waits."""

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
    """The client of a service, by its name in boto3."""
    return boto3.client(service, config=_CONFIG)


def code_of(error: Any) -> str:
    """The code of an error that AWS answered with."""
    return str(error.response.get("Error", {}).get("Code", ""))
