"""Credentials of clients of an emulated AWS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

REGION: Final = "us-east-1"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A key pair and a region."""

    access_key: str = "test"
    secret_key: str = "test"
    region: str = REGION

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables for AWS libraries and tools."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",  # do not look for an instance role
        }
