"""``sulina up --brokers``: a cluster of processes on this machine, under one supervisor."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from broker_containers.commands.auth_options import ROOT_VARIABLE, security_warning
from broker_containers.commands.serving import own_program, serve
from broker_containers.local_cluster.front import DanubeFront
from broker_containers.local_cluster.ports import (
    LOCAL,
    ClusterPorts,
    ClusterSize,
    ProcessOptions,
    RequestedPorts,
    plan_ports,
)
from broker_containers.local_cluster.processes import LocalCluster
from broker_containers.local_cluster.supervisor import ProcessEvent, Supervisor
from sulina.cli.output import console, echo
from sulina.cli.settings import DEFAULT_URL, CliSettings
from sulina.client.address import Address
from sulina.errors import Refused, Unavailable
from sulina.runtime.real_clock import RealClock
from sulina.version import __version__


def run_cluster(
    settings: CliSettings,
    data: Path,
    size: ClusterSize,
    requested: RequestedPorts,
    options: ProcessOptions,
) -> None:
    """Run the cluster until Ctrl-C or SIGTERM; a second signal ends everything immediately.

    Raises ``Refused`` if a port or the folder is in use, or etcd is not installed, and
    ``Unavailable``, with its last output, if a process does not start.
    """
    data.mkdir(parents=True, exist_ok=True)
    with _exclusive(data):
        ports = plan_ports(data, size, requested)
        secure = "--tls-cert" in options.broker
        if ports.grpc_shared:
            url = _danube_url(ports, requested.host, secure=secure)
            options = replace(options, broker=(*options.broker, "--grpc-proxy", url))
        try:
            cluster = LocalCluster(data, ports, options)
        except Unavailable as error:
            raise Refused(str(error)) from None
        required = "--auth" in options.broker or ROOT_VARIABLE in os.environ
        security = security_warning(requested.host, required=required, secure=secure)

        def tell(event: ProcessEvent) -> None:
            if settings.json:
                _write_line({"event": event.event, "process": event.process})
            else:
                echo(str(event), err=True)

        def announce(_: None) -> None:
            ready = described(cluster, requested.host, secure=secure)
            if settings.json:
                _write_line(ready)
            else:
                _print_panel(ready, security or "clients need tokens")

        if not settings.json:
            total = len(cluster.processes)
            click.echo(f"starting {total} processes, data in {cluster.folder}", err=True)
        stopping = "brokers first, then storage nodes, then etcd"
        server = _supervised(cluster, tell, requested.host, secure=secure)
        serve(settings, server, announce, stopping=stopping)


@asynccontextmanager
async def _supervised(
    cluster: LocalCluster, tell: Callable[[ProcessEvent], None], host: str, *, secure: bool
) -> AsyncIterator[None]:
    """The processes, and the address that they share if there is one."""
    port = cluster.ports.grpc_shared
    async with Supervisor(cluster, tell):
        if not port:
            yield
            return

        def running() -> list[int]:
            brokers = cluster.brokers.items()
            return [cluster.ports.grpc[name] for name, each in brokers if each.child.running]

        async with DanubeFront(host, port, running, RealClock(), plain=not secure):
            yield


def _danube_url(ports: ClusterPorts, host: str, *, secure: bool) -> str:
    """The service URL for Danube's clients: that of all brokers, or of the first one."""
    port = ports.grpc_shared or next(iter(ports.grpc.values()))
    return f"{'https' if secure else 'http'}://{Address(host, port)}"


def _write_line(value: dict[str, Any]) -> None:
    click.echo(json.dumps(value))
    sys.stdout.flush()


@contextmanager
def _exclusive(data: Path) -> Iterator[None]:
    """Lock the folder. Raises ``Refused`` if another supervisor uses it."""
    with (data / "cluster.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused(
                f"another process uses the folder {data}: stop it, or choose another with --data"
            ) from None
        yield


def described(cluster: LocalCluster, host: str, *, secure: bool) -> dict[str, Any]:
    """The addresses, processes and logs of the cluster, for JSON."""
    ports: ClusterPorts = cluster.ports
    scheme, http = ("sulina+tls", "https") if secure else ("sulina", "http")
    addresses = [Address(host, port) for port, _ in ports.brokers.values()]
    return {
        "event": "ready",
        "url": f"{scheme}://{','.join(map(str, addresses))}",
        "danube_url": _danube_url(ports, host, secure=secure),
        "pid": os.getpid(),
        "data": str(cluster.folder),
        "brokers": [
            {
                "id": name,
                "pid": cluster.brokers[name].child.pid,
                "url": f"{scheme}://{Address(host, port)}",
                "port": port,
                "http_url": f"{http}://{Address(host, http_port)}",
                "http_port": http_port,
                "admin_port": ports.admin[name],
                "grpc_port": ports.grpc[name],
                "log": str(cluster.brokers[name].log),
            }
            for name, (port, http_port) in ports.brokers.items()
        ],
        "storage": [
            {
                "id": name,
                "pid": cluster.storage[name].child.pid,
                "address": str(Address(LOCAL, port)),
                "port": port,
                "metrics_port": ports.metrics.get(name, 0),
                "data": str(cluster.folder / "storage" / name),
                "log": str(cluster.storage[name].log),
            }
            for name, port in ports.storage.items()
        ],
        "etcd": [
            {
                "id": name,
                "pid": cluster.etcd[name].child.pid,
                "url": f"http://{Address(LOCAL, client)}",
                "port": client,
                "peer_port": peer,
                "data": str(cluster.folder / "etcd" / name),
                "log": str(cluster.etcd[name].log),
            }
            for name, (client, peer) in ports.etcd.items()
        ],
    }


def _print_panel(ready: dict[str, Any], security: str) -> None:
    from rich.panel import Panel
    from rich.table import Table

    first = ready["brokers"][0]["url"]
    sulina = own_program() + ("" if first == DEFAULT_URL else f" --url {first}")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for row in ready["brokers"]:
        grid.add_row(row["id"], f"{row['url']}  {row['http_url']}  (process {row['pid']})")
    for row in ready["storage"]:
        grid.add_row(row["id"], f"{row['address']}  (process {row['pid']})")
    for row in ready["etcd"]:
        grid.add_row(row["id"], f"{row['url']}  (process {row['pid']})")
    grid.add_row("security", security)
    grid.add_row("data, logs", ready["data"])
    grid.add_row()
    grid.add_row("console", ready["brokers"][0]["http_url"])
    grid.add_row("clients", ready["url"])
    grid.add_row("Danube's clients", ready["danube_url"])
    grid.add_row("describe", f"{sulina} cluster describe")
    grid.add_row("produce", f'{sulina} produce /default/hello "hello"')
    grid.add_row("consume", f"{sulina} consume /default/hello --from earliest")
    grid.add_row("stop", "Ctrl-C")
    title = f"Sulina {__version__}: the cluster is ready"
    console().print(Panel.fit(grid, title=title, border_style="green"))
    sys.stdout.flush()
