"""``python -m localstack.cloud``: start everything, print the addresses, stop on Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from broker_containers.local_cluster.ports import BROKER_PORT
from localstack.cloud.balancer import check_free
from localstack.cloud.endpoints import Endpoints, emulated_aws
from localstack.cloud.engine import find_pulumi
from localstack.cloud.folder import cloud_folder
from localstack.cloud.panel import print_panel, write_variables
from localstack.cloud.running import CloudSettings, RunningCloud, running_cloud
from localstack.environments import main as make_environments
from sulina.cli.failures import ExitCode, Failed
from sulina.cli.options import option, options
from sulina.errors import SulinaError, Unavailable
from sulina.runtime.real_clock import RealClock
from sulina.runtime.stop_signal import StopSignal
from sulina.runtime.tasks import stop_tasks

_AWS_PORT: Final = 4566
_EMULATORS: Final = {
    "localstack": (("localstack", "emulators"), False),
    "seaweedfs": (("emulators",), True),
}
"""By name: the environments, and whether objects survive a restart."""


@dataclass(frozen=True, slots=True)
class CloudOptions:
    """The options, in the order in which the help shows them."""

    s3: str = option(
        "localstack",
        "The emulator of S3: LocalStack has more services, SeaweedFS keeps its objects.",
        type=click.Choice(list(_EMULATORS)),
    )
    brokers: int = option(3, "Minimum number of brokers.", type=click.IntRange(1, 99))
    max_brokers: int = option(
        6, "Maximum number of brokers, for autoscaling.", type=click.IntRange(1, 99)
    )
    storage: int = option(3, "Number of storage nodes.", type=click.IntRange(1, 60))
    etcd: str = option("3", "Number of etcd members.", type=click.Choice(["1", "3", "5"]))
    minute: float = option(
        10.0,
        "How long a minute of schedules and of autoscaling takes; 60 is real time.",
        type=click.FloatRange(min=0.01, max=60),
        metavar="SECONDS",
    )
    port: int = option(
        BROKER_PORT,
        "The load balancer's port for Sulina's clients; 0 picks free ports.",
        type=click.IntRange(0, 65535),
    )
    aws_port: int = option(
        _AWS_PORT,
        "Port of the emulated AWS, and with the next one of moto; 0 picks free ports.",
        type=click.IntRange(0, 65534),
    )
    tier_after: float = option(
        60.0,
        "Maximum time before messages are stored in S3.",
        type=click.FloatRange(min=1),
        metavar="SECONDS",
    )
    more_settings: tuple[str, ...] = option(
        (),
        "A setting of the stack, as in docs/deploy.md; may be repeated.",
        flag="--set",
        metavar="NAME=VALUE",
        multiple=True,
    )
    engine: bool = option(
        True,
        "Run the program under Pulumi's engine, if it is installed with its plugins.",
        flag="--engine/--no-engine",
    )
    data: Path = option(
        Path(".sulina-cloud"),
        "Folder for all data and logs; created if missing.",
        type=click.Path(path_type=Path),
    )
    as_json: bool = option(False, "Print one line of JSON when ready.", flag="--json")

    def settings(self, broker_arguments: tuple[str, ...]) -> CloudSettings:
        """Raises ``UsageError`` for a setting without a value."""
        stack = {
            "brokerMin": str(self.brokers),
            "brokerMax": str(max(self.brokers, self.max_brokers)),
            "storageCount": str(self.storage),
            "etcdCount": self.etcd,
        }
        for each in self.more_settings:
            name, equals, value = each.partition("=")
            if not equals:
                raise click.UsageError(f"--set {each} must have the form NAME=VALUE")
            stack[name] = value
        pulumi = None
        # SeaweedFS lacks settings of buckets that the engine's plugin reads back.
        if self.engine and self.s3 == "localstack":
            with suppress(Unavailable):
                pulumi = find_pulumi()
        return CloudSettings(
            stack, self.port, self.tier_after, self.minute, broker_arguments, pulumi
        )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@options(CloudOptions)
@click.argument("more", nargs=-1, metavar="[-- OPTIONS OF sulina broker run]")
def main(options: CloudOptions, more: tuple[str, ...]) -> None:
    """Run a complete cloud on this machine, without Docker: the resources of the Pulumi program in
    an emulated AWS, its containers as processes, its functions, schedules and Spark jobs. Ctrl-C
    stops everything."""
    settings = options.settings(more)
    environments, persistent = _EMULATORS[options.s3]
    try:
        if make_environments(list(environments)):
            sys.exit(ExitCode.FAILED)
        with cloud_folder(options.data, options.s3, persistent=persistent) as folder:
            check_free(options.port)
            _say(f"starting an emulated AWS, data in {folder}", options.as_json)
            with emulated_aws(options.s3, folder / "aws", options.aws_port) as endpoints:
                done = asyncio.run(_run(options, settings, endpoints, folder))
    except SulinaError as error:
        raise Failed(error, as_json=options.as_json) from error
    except KeyboardInterrupt:
        done = False
    sys.exit(ExitCode.FINE if done else ExitCode.INTERRUPTED)


async def _run(
    options: CloudOptions, settings: CloudSettings, endpoints: Endpoints, folder: Path
) -> bool:
    """Run until stopped; returns False if it was stopped before it was ready."""
    stop, clock = StopSignal(), RealClock()

    def tell(sentence: str) -> None:
        if stop.ready and options.as_json:
            click.echo(json.dumps({"event": "said", "what": sentence}))
        else:
            _say(sentence, options.as_json)

    try:
        async with running_cloud(endpoints, settings, folder, clock, tell) as cloud:
            stop.ready = True
            _announce(options, cloud, folder)
            watching = asyncio.create_task(cloud.watch(clock))
            stopping = asyncio.create_task(stop.received.wait())
            try:
                await asyncio.wait((watching, stopping), return_when=asyncio.FIRST_COMPLETED)
                if watching.done():
                    watching.result()
                _say("stopping the brokers, storage nodes and etcd, then AWS", options.as_json)
            finally:
                await stop_tasks(watching, stopping)
    except asyncio.CancelledError:
        if not stop.received.is_set():
            raise
        return False
    return True


def _announce(options: CloudOptions, cloud: RunningCloud, folder: Path) -> None:
    s3 = cloud.endpoints.s3
    ready: dict[str, Any] = {
        "event": "ready",
        "pid": os.getpid(),
        "data": str(folder),
        "aws": {
            "kind": options.s3,
            "endpoint": cloud.endpoints.url,
            "s3": s3.url,
            "bucket": cloud.outputs["lakeBucket"],
            "tier": cloud.outputs["lakeUrl"],
            "persistent": _EMULATORS[options.s3][1],
            "pids": [each.pid for each in cloud.endpoints.servers],
        },
        "cluster": cloud.described(),
        "outputs": cloud.outputs,
        "variables": cloud.variables,
    }
    path = folder / "cloud.env"
    write_variables(path, cloud.variables)
    if options.as_json:
        click.echo(json.dumps(ready))
    else:
        print_panel(ready, path)
    sys.stdout.flush()


def _say(sentence: str, as_json: bool) -> None:
    if not as_json:
        click.echo(sentence, err=True)


if __name__ == "__main__":
    main()
