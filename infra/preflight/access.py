"""Access to AWS for the checks: the same account and region that Pulumi's provider uses."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from infra.preflight.finding import Finding

# A check must not hold up a deployment for long.
_PATIENCE: Final = Config(connect_timeout=5, read_timeout=10, retries={"max_attempts": 2})
_KEYS: Final = {
    "aws:profile": "profile_name",
    "aws:accessKey": "aws_access_key_id",
    "aws:secretKey": "aws_secret_access_key",
    "aws:token": "aws_session_token",
}


@dataclass(frozen=True)
class AwsAccess:
    """An account and a region, from a stack's configuration and the environment."""

    given: Mapping[str, str]

    @property
    def region(self) -> str:
        """The region's name, or nothing if none is configured."""
        names = ("AWS_REGION", "AWS_DEFAULT_REGION")
        return self.given.get("aws:region") or next(
            (found for name in names if (found := os.environ.get(name))), ""
        )

    @cached_property
    def _session(self) -> Any:
        chosen = {name: self.given[key] for key, name in _KEYS.items() if self.given.get(key)}
        return boto3.Session(region_name=self.region, **chosen)

    def client(self, service: str) -> Any:
        """A client that gives up after seconds."""
        return self._session.client(service, config=_PATIENCE)

    def findings(self) -> list[Finding]:
        """What keeps the checks, and a deployment, from this account; blocks for seconds."""
        if not self.region:
            return [
                Finding("no region is set: set it with `pulumi config set aws:region <region>`")
            ]
        try:
            if self._session.get_credentials() is None:
                return [
                    Finding(
                        "there are no AWS credentials: sign in with `aws sso login` or "
                        "`aws configure`, then check with `aws sts get-caller-identity`"
                    )
                ]
            account = str(self.client("sts").get_caller_identity()["Account"])
        except ClientError as error:
            return [
                Finding(
                    f"AWS refuses the credentials in {self.region} "
                    f"({error.response['Error']['Code']}): sign in again, and check that the "
                    "region is enabled for the account"
                )
            ]
        except BotoCoreError as error:
            return [
                Finding(
                    f"AWS cannot be asked in the region {self.region!r} ({_one_line(error)}): "
                    "check the region's name, the profile and the network"
                )
            ]
        return self._expected(account)

    def _expected(self, account: str) -> list[Finding]:
        allowed = json.loads(self.given.get("aws:allowedAccountIds") or "[]")
        if not allowed or account in map(str, allowed):
            return []
        return [
            Finding(
                f"these credentials are for the account {account}, but aws:allowedAccountIds "
                f"names {', '.join(map(str, allowed))}: sign in to the right one"
            )
        ]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
