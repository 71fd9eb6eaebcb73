"""The emulated account: its clients, and the table of functions that create resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from threading import Lock
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ParamValidationError
from botocore.validate import ParamValidator

from localstack.deployment.inputs import ResourceInputs
from localstack.emulators.credentials import Credentials

Made = tuple[str, dict[str, Any]]
Make = Callable[["EmulatedAccount", ResourceInputs], Made]
MAKERS: dict[str, Make] = {}


def makes(kind: str) -> Callable[[Make], Make]:
    """Register a function that creates resources of a type such as ``ec2/vpc:Vpc``."""

    def enter(make: Make) -> Make:
        MAKERS[f"aws:{kind}"] = make
        return make

    return enter


BUCKET_SETTINGS = "s3:settings"
"""The client of S3 for the settings of buckets, which not every emulator of S3 has."""


class EmulatedAccount:
    """An account of AWS at a URL; ``elsewhere`` has the URLs of services that are not there."""

    def __init__(
        self,
        url: str,
        region: str,
        elsewhere: Mapping[str, str],
        credentials: Credentials | None = None,
    ) -> None:
        self.region = region
        self._credentials = credentials or Credentials()
        self._url = url
        self._elsewhere = elsewhere
        self.client = cache(self._client)
        self._one = Lock()
        self.at_end: list[Callable[[], object]] = []
        """What has to wait until everything else is made."""

    def finish(self) -> None:
        """Do what had to wait."""
        for each in self.at_end:
            each()

    def _client(self, service: str) -> Any:
        with self._one:  # boto3 does not create clients in several threads at once
            return self._new_client(service)

    def _new_client(self, service: str) -> Any:
        name = service.partition(":")[0]
        url = self._elsewhere.get(name, self._url)
        return boto3.client(
            name,
            endpoint_url=self._elsewhere.get(service, url),
            region_name=self.region,
            aws_access_key_id=self._credentials.access_key,
            aws_secret_access_key=self._credentials.secret_key,
            config=Config(retries={"max_attempts": 1}, s3={"addressing_style": "path"}),
        )

    def check(self, service: str, operation: str, request: dict[str, Any]) -> None:
        """Raises if AWS's model of a service does not know a request, without sending it."""
        model = self.client(service).meta.service_model.operation_model(operation)
        report = ParamValidator().validate(request, model.input_shape)
        if report.has_errors():
            raise ParamValidationError(report=report.generate_report())
