"""The emulated AWS of a local cloud: several emulators, each with the services that it does best.

LocalStack has no ECS, ELB, Glue, EMR and Auto Scaling, and its functions need Docker: moto has the
API of these. EC2, IAM and KMS are in moto too, because it looks up the subnets, roles and keys that
other requests name; Secrets Manager and SSM, because with them LocalStack has its own Lambda, and
refuses to notify functions that are elsewhere; CloudWatch, because LocalStack cannot describe its
alarms. What neither does, the runners of this package do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from localstack.deployment.account import BUCKET_SETTINGS, EmulatedAccount
from localstack.emulators.aws import running_localstack
from localstack.emulators.credentials import Credentials
from localstack.emulators.moto import running_moto
from localstack.emulators.seaweedfs import running_seaweedfs
from localstack.emulators.server import EmulatorServer

IN_LOCALSTACK: Final = (*("events", "logs", "s3", "s3control", "scheduler", "sns", "sqs", "sts"),)
"""LocalStack has no others here: it would look for the functions that buckets notify."""
ACCOUNT: Final = "000000000000"
"""LocalStack's account number, which moto takes over."""
IN_MOTO: Final = (
    *("application-autoscaling", "athena", "cloudwatch", "dlm", "ec2", "ecr", "ecs", "elbv2"),
    *("emr-serverless", "glue", "iam", "kms", "lambda", "secretsmanager", "servicediscovery"),
    "ssm",
)
"""The services that LocalStack leaves to moto, by boto3's name."""
_VARIABLES: Final = {
    "application-autoscaling": "APPLICATION_AUTO_SCALING",
    "elbv2": "ELASTIC_LOAD_BALANCING_V2",
    "emr-serverless": "EMR_SERVERLESS",
    "secretsmanager": "SECRETS_MANAGER",
}
"""How AWS's tools call a service in ``AWS_ENDPOINT_URL_<name>``, where it is not boto3's name."""
RUN_HERE: Final = ("lambda", "emr-serverless", "ecs")
"""The services whose calls this package executes or completes, and otherwise passes on to moto."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where each service is."""

    url: str
    """All services that are not ``elsewhere``."""
    elsewhere: Mapping[str, str]
    s3: EmulatorServer
    servers: tuple[EmulatorServer, ...]
    credentials: Credentials

    @property
    def account(self) -> EmulatedAccount:
        """Clients for all services; Lambda's and EMR's execute nothing."""
        region = self.credentials.region
        return EmulatedAccount(self.url, region, self.elsewhere, self.credentials)

    def variables(self, runner: str) -> dict[str, str]:
        """Environment variables for AWS's libraries and tools; ``runner`` executes calls."""
        elsewhere = {**self.elsewhere, **dict.fromkeys(RUN_HERE, runner)}
        found = {
            f"AWS_ENDPOINT_URL_{_VARIABLES.get(service, service.upper())}": url
            for service, url in sorted(elsewhere.items())
            if service != BUCKET_SETTINGS
        }
        return {"AWS_ENDPOINT_URL": self.url, **found, **self.credentials.variables}


@contextmanager
def emulated_aws(s3: str, folder: Path, port: int) -> Iterator[Endpoints]:
    """Start the emulators; ``s3`` is ``localstack`` or ``seaweedfs``, on ``port`` or a free one.

    moto is on the next port. Blocks until they are ready; they are killed at the end.
    """
    settings = {"MOTO_ACCOUNT_ID": ACCOUNT}
    with running_moto(folder / "moto", port and port + 1, settings) as moto:
        if s3 == "localstack":
            with running_localstack(folder / s3, port, IN_LOCALSTACK) as server:
                elsewhere = dict.fromkeys(IN_MOTO, moto.url)
                yield Endpoints(server.url, elsewhere, server, (server, moto), server.credentials)
        else:
            with running_seaweedfs(folder / s3, port) as server:
                elsewhere = {"s3": server.url, BUCKET_SETTINGS: moto.url}
                yield Endpoints(moto.url, elsewhere, server, (server, moto), server.credentials)
