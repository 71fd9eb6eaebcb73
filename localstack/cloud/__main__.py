"""``python -m localstack.cloud``: start everything, print the addresses, stop on Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from broker_containers.local_cluster.ports import BROKER_PORT
from broker_containers.local_cluster.processes import ServerProcess
from localstack.cloud.folder import cloud_folder
from localstack.cloud.panel import print_panel, write_variables
from localstack.cloud.provision import make_lake, publish_settings, tier_url
from localstack.emulators.aws import running_localstack
from localstack.emulators.seaweedfs import running_seaweedfs
from localstack.emulators.server import EmulatorServer
from localstack.environments import main as make_environments
from sulina.cli.failures import ExitCode, Failed
from sulina.cli.options import option, options
from sulina.errors import SulinaError, Unavailable
from sulina.runtime.real_clock import RealClock
from sulina.runtime.stop_signal import StopSignal

_AWS_PORT: Final = 4566
_READY_SECONDS: Final = 300.0
"""The cluster's supervisor gives up sooner, and reports which process was late."""
_STOP_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.5
_EMULATORS: Final = {
    "localstack": ("localstack", running_localstack, False),
    "seaweedfs": ("emulators", running_seaweedfs, True),
}
"""By name: the environment, the function that starts it, whether objects survive a restart."""


@dataclass(frozen=True, slots=True)
class CloudOptions:
    """The options, in the order in which the help shows them."""

    s3: str = option(
        "localstack",
        "The emulator: LocalStack has more services, SeaweedFS keeps its objects.",
        type=click.Choice(list(_EMULATORS)),
    )
    brokers: int = option(3, "Number of brokers.", type=click.IntRange(1, 99))
    storage: int = option(3, "Number of storage nodes.", type=click.IntRange(1, 99))
    etcd: str = option("3", "Number of etcd members.", type=click.Choice(["1", "3", "5", "7"]))
    port: int = option(
        BROKER_PORT,
        "Port of the first broker, followed by the others; 0 picks free ports.",
        type=click.IntRange(0, 65535),
    )
    aws_port: int = option(
        _AWS_PORT,
        "Port of the emulated AWS; 0 picks a free port.",
        type=click.IntRange(0, 65535),
    )
    bucket: str = option("sulina-lake", "Name of the bucket.")
    tier_after: float = option(
        60.0,
        "Maximum time before messages are stored in S3.",
        type=click.FloatRange(min=1),
        metavar="SECONDS",
    )
    data: Path = option(
        Path(".sulina-cloud"),
        "Folder for all data and logs; created if missing.",
        type=click.Path(path_type=Path),
    )
    as_json: bool = option(False, "Print one line of JSON when ready.", flag="--json")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@options(CloudOptions)
@click.argument("more", nargs=-1, metavar="[-- OPTIONS OF sulina up]")
def main(options: CloudOptions, more: tuple[str, ...]) -> None:
    """Run a complete cloud on this machine, without Docker: an emulated AWS, and a Sulina cluster
    whose ledgers are stored in its S3. Ctrl-C stops everything."""
    s3, bucket, as_json = options.s3, options.bucket, options.as_json
    environment, start, persistent = _EMULATORS[s3]
    brokers, storage = str(options.brokers), str(options.storage)
    counts = ("--brokers", brokers, "--storage", storage, "--etcd", options.etcd)
    try:
        if make_environments([environment]):
            sys.exit(ExitCode.FAILED)
        with cloud_folder(options.data, s3, persistent=persistent) as folder:
            _say(f"starting {s3}, data in {folder}", as_json)
            with start(folder / "aws", options.aws_port) as server:
                make_lake(server, bucket)
                tier = tier_url(server, bucket)
                os.environ.update(server.variables)  # credentials for the storage nodes
                command = (
                    *(
                        "up",
                        *counts,
                        "--port",
                        str(options.port),
                        "--data",
                        str(folder / "cluster"),
                    ),
                    *("--tier", tier, "--tier-after", str(options.tier_after), *more),
                )
                cloud = _Cloud(folder, server, command, as_json)
                done = asyncio.run(cloud.run({"kind": s3, "bucket": bucket, "tier": tier}))
    except SulinaError as error:
        raise Failed(error, as_json=as_json) from error
    except KeyboardInterrupt:
        done = False
    sys.exit(ExitCode.FINE if done else ExitCode.INTERRUPTED)


class _Cloud:
    """The cluster next to a running AWS emulator."""

    def __init__(
        self, folder: Path, server: EmulatorServer, command: Sequence[str], as_json: bool
    ) -> None:
        self._folder = folder
        self._server = server
        self._as_json = as_json
        log = folder / "cluster.log"
        self._cluster = ServerProcess("the cluster", command, log, seconds=_READY_SECONDS)
        self._clock = RealClock()

    async def run(self, aws: dict[str, Any]) -> bool:
        """Run until stopped; returns False if it was stopped before it was ready.

        Raises ``Unavailable`` if the cluster or the emulator exits.
        """
        stop = StopSignal()
        _say("starting brokers, storage nodes and etcd", self._as_json)
        try:
            self._cluster.child.start()
            await self._cluster.ready()
            stop.ready = True
            self._announce(aws)
            while not stop.received.is_set():
                if not self._cluster.child.running:
                    raise Unavailable(f"the cluster exited: {self._cluster.child.said()}")
                if not self._server.running:
                    raise Unavailable(f"{aws['kind']} exited: its log is in {self._server.folder}")
                await self._clock.sleep(_POLL_SECONDS)
            _say("stopping the cluster, then AWS", self._as_json)
        except asyncio.CancelledError:
            if not stop.received.is_set():
                raise
            return False
        finally:
            await self._cluster.child.stop(self._clock, _STOP_SECONDS)
        return True

    def _announce(self, aws: dict[str, Any]) -> None:
        cluster, server = self._cluster.said, self._server
        persistent = _EMULATORS[aws["kind"]][2]
        ready = {
            "event": "ready",
            "pid": os.getpid(),
            "data": str(self._folder),
            "aws": {**aws, "endpoint": server.url, "persistent": persistent, "pid": server.pid},
            "cluster": cluster,
        }
        variables = {**server.variables, "SULINA_URL": cluster["url"], "SULINA_TIER": aws["tier"]}
        path = self._folder / "cloud.env"
        write_variables(path, variables)
        if aws["kind"] == "localstack":
            publish_settings(server, {"url": cluster["url"], "tier": aws["tier"]})
        if self._as_json:
            click.echo(json.dumps({**ready, "variables": variables}))
        else:
            print_panel(ready, path)
        sys.stdout.flush()


def _say(sentence: str, as_json: bool) -> None:
    if not as_json:
        click.echo(sentence, err=True)


if __name__ == "__main__":
    main()
