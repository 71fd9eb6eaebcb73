"""A running local cloud: the resources of the Pulumi program, and what brings them to life.

The emulators hold the resources and execute nothing. Here, containers are processes, and small
runners take the place of the load balancer, Application Auto Scaling, EventBridge Scheduler, S3's
notifications, Lambda and EMR Serverless. All of them read their definitions from the account.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from broker_containers.local_cluster.ports import (
    LOCAL,
    ClusterSize,
    RequestedPorts,
    plan_ports,
)
from localstack.cloud.addresses import BINARY, HTTP, address_book
from localstack.cloud.balancer import Balancer, listener_ports
from localstack.cloud.bucket_events import read_notifications, watch_bucket
from localstack.cloud.builds import build
from localstack.cloud.containers import Containers, Task
from localstack.cloud.definitions import ServiceDefinition, read_services
from localstack.cloud.door import Door
from localstack.cloud.endpoints import Endpoints
from localstack.cloud.functions import FunctionRunner
from localstack.cloud.job_runs import JobRunner
from localstack.cloud.program import deploy
from localstack.cloud.scaling import AutoScaling
from localstack.cloud.schedules import read_schedules, run_schedule
from sulina.errors import Unavailable
from sulina.runtime.seam import Clock
from sulina.runtime.tasks import stop_tasks

_STOP_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class CloudSettings:
    """What a local cloud runs, and how."""

    stack: Mapping[str, str]
    """Settings of the stack, in addition to those of its file."""
    port: int
    """The load balancer's port for Sulina's clients; 0 picks free ports."""
    tier_after: float
    minute_seconds: float
    """How long a minute of schedules and autoscaling takes."""
    broker_arguments: tuple[str, ...] = ()
    pulumi: str | None = None
    """The command of Pulumi's engine; None runs the program without it."""


@dataclass(frozen=True, slots=True)
class RunningCloud:
    """A cloud that is ready."""

    outputs: Mapping[str, Any]
    """Those of the Pulumi program."""
    variables: Mapping[str, str]
    """Environment variables for AWS's tools and for ``sulina``."""
    containers: Containers
    endpoints: Endpoints
    url: str
    http_url: str
    runners: tuple[asyncio.Task[None], ...]

    def described(self) -> dict[str, Any]:
        """The processes and addresses, for the line of JSON."""
        return {
            "url": self.url,
            "http_url": self.http_url,
            **{
                kind: [_row(task) for task in self.containers.of(container)]
                for kind, container in (
                    ("brokers", "broker"),
                    ("storage", "storage"),
                    ("etcd", "etcd"),
                )
            },
        }

    async def watch(self, clock: Clock) -> None:
        """Wait. Raises ``Unavailable`` if an emulator ends, and the error of a runner."""
        while True:
            for server in self.endpoints.servers:
                if not server.running:
                    raise Unavailable(f"an emulator exited: its log is in {server.folder}")
            done, _ = await asyncio.wait(self.runners, timeout=0)
            for task in done:
                task.result()
            await clock.sleep(_POLL_SECONDS)


@asynccontextmanager
async def running_cloud(
    endpoints: Endpoints,
    settings: CloudSettings,
    folder: Path,
    clock: Clock,
    tell: Callable[[str], None],
) -> AsyncIterator[RunningCloud]:
    """Create the resources, start everything and stop it at the end; ``tell`` gets sentences.

    Raises ``Unavailable`` or ``Refused`` if something cannot be started.
    """
    tell(f"running the Pulumi program {'under' if settings.pulumi else 'without'} Pulumi's engine")
    stack = {**build(folder / "build"), **settings.stack}
    created = lambda count: tell(f"{count} resources created")  # noqa: E731
    outputs = await deploy(endpoints, stack, folder, clock, created, settings.pulumi)
    account = endpoints.account
    cluster, prefix = outputs["cluster"], str(outputs["service"]).removesuffix("-broker")
    services = {
        each.name: each for each in await asyncio.to_thread(read_services, account, cluster, prefix)
    }
    ports = plan_ports(
        folder / "cluster",
        _size(account, services),
        RequestedPorts(port=0, http_port=0),
    )
    listeners = listener_ports(account, settings.port)
    book = address_book(account, ports, listeners)
    url = f"sulina://{LOCAL}:{listeners[BINARY]}"
    async with AsyncExitStack() as stack_of_parts:
        variables = dict(endpoints.variables(""))
        functions = FunctionRunner(
            account, book, variables, folder / "functions", settings.minute_seconds, clock
        )
        stack_of_parts.push_async_callback(functions.stop)
        jobs = JobRunner(account, variables, folder / "jobs", clock, tell)
        moto = endpoints.elsewhere.get("lambda", endpoints.url)
        door = Door(functions, jobs, moto)
        runner = await stack_of_parts.enter_async_context(door)
        variables |= endpoints.variables(runner)
        containers = Containers(
            account,
            cluster,
            prefix,
            services,
            ports,
            book,
            folder / "cluster",
            {**variables, "SULINA_BROKER_TIER_AFTER": str(settings.tier_after)},
            settings.broker_arguments,
            clock,
            tell,
        )
        stack_of_parts.push_async_callback(containers.stop, _STOP_SECONDS)
        door.count_tasks = containers.count
        members = sum(each.member for each in services.values())
        tell(f"starting {members} etcd members and storage nodes, then brokers")
        await containers.start()
        await stack_of_parts.enter_async_context(Balancer(listeners, containers, clock))
        loops: list[Coroutine[Any, Any, None]] = [
            containers.run(),
            jobs.run(),
            AutoScaling(account, settings.minute_seconds, clock, tell).run(),
        ]
        loops += [
            run_schedule(each, functions, settings.minute_seconds, clock)
            for each in await asyncio.to_thread(read_schedules, account)
        ]
        loops += [
            watch_bucket(account, each, functions, clock)
            for each in await asyncio.to_thread(read_notifications, account)
        ]
        runners = tuple(asyncio.create_task(loop) for loop in loops)
        stack_of_parts.push_async_callback(stop_tasks, *runners)
        yield RunningCloud(
            outputs,
            {
                **variables,
                "SULINA_URL": url,
                "SULINA_TOKEN": await asyncio.to_thread(_token, account, outputs),
                "SULINA_TIER": outputs["lakeUrl"],
                "SULINA_CATALOG": "glue:",
                "SULINA_DATABASE": outputs["glueDatabase"],
            },
            containers,
            endpoints,
            url,
            f"http://{LOCAL}:{listeners[HTTP]}",
            runners,
        )


def _size(account: Any, services: Mapping[str, ServiceDefinition]) -> ClusterSize:
    """How many processes there can be of each kind."""
    scaling = account.client("application-autoscaling")
    [target] = scaling.describe_scalable_targets(ServiceNamespace="ecs")["ScalableTargets"]
    kinds = [each.container["name"] for each in services.values()]
    return ClusterSize(int(target["MaxCapacity"]), kinds.count("storage"), kinds.count("etcd"))


def _token(account: Any, outputs: Mapping[str, Any]) -> str:
    """The root token of the brokers."""
    client = account.client("secretsmanager")
    return str(client.get_secret_value(SecretId=outputs["tokenSecret"])["SecretString"])


def _row(task: Task) -> dict[str, Any]:
    row: dict[str, Any] = {"id": task.name, "pid": task.child.pid, "log": str(task.log)}
    if HTTP in task.ports:
        row["http_url"] = f"http://{LOCAL}:{task.ports[HTTP]}"
    return row
