"""How a server command runs: start, print the addresses, serve until a signal, stop cleanly."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Final, TypeVar

import click

from broker_containers.assembly.running import RunningBroker
from broker_containers.commands.auth_options import LOCAL, security_warning
from broker_containers.doors.listen import Listen
from storage_grpc.journal.recover import RecoveryReport
from sulina.cli.failures import ExitCode
from sulina.cli.output import console, echo, plural, size
from sulina.cli.running import run
from sulina.cli.settings import DEFAULT_URL, CliSettings
from sulina.client.address import Address
from sulina.runtime.machine import tune_for_frames
from sulina.runtime.machine_watch import raise_descriptor_limit
from sulina.runtime.stop_signal import serve_until_stopped
from sulina.version import __version__

_T = TypeVar("_T")
_ALL_ADDRESSES: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


def serve_broker(
    settings: CliSettings,
    data: Path,
    listen: Listen,
    broker: AbstractAsyncContextManager[RunningBroker],
) -> None:
    """Run a broker as ``serve`` does.

    Raises ``Refused`` if the port or the folder is in use, and ``StorageFailed``.
    """

    def announce(running: RunningBroker) -> None:
        tune_for_frames()
        raise_descriptor_limit()
        _announce(settings, data, listen, running)

    serve(settings, broker, announce, stopping="notifying clients, storing cursors")


def serve(
    settings: CliSettings,
    server: AbstractAsyncContextManager[_T],
    announce: Callable[[_T], None],
    *,
    stopping: str,
) -> None:
    """Run ``server`` until Ctrl-C or SIGTERM; ``announce`` is called when it is ready.

    A signal before that ends the command with the exit code ``INTERRUPTED``.
    """

    def say(text: str) -> None:
        if not settings.json:
            echo(text, err=True)

    async def work() -> bool:
        stopped = await serve_until_stopped(server, announce, lambda: say(f"stopping: {stopping}"))
        if stopped:
            say("stopped; all data is stored")
        return stopped

    if not run(work()):
        click.get_current_context().exit(ExitCode.INTERRUPTED)


def _announce(settings: CliSettings, data: Path, listen: Listen, server: RunningBroker) -> None:
    at = server.addresses
    scheme = "sulina" if listen.tls is None else "sulina+tls"
    host = _ALL_ADDRESSES.get(listen.host, listen.host)
    url = f"{scheme}://{Address(host, at.port)}"
    http_url = None
    if at.http_port is not None:
        secure = "http" if listen.tls is None else "https"
        http_url = f"{secure}://{Address(host, at.http_port)}"
    recovery: RecoveryReport | None = server.recovery
    required = server.services.authority.on
    warning = security_warning(listen.host, required=required, secure=listen.tls is not None)
    if settings.json:
        if warning and listen.host not in LOCAL:
            click.echo(f"security: {warning}", err=True)
        ready = {
            "event": "ready",
            "url": url,
            "host": listen.host,
            "port": at.port,
            "http_url": http_url,
            "http_port": at.http_port,
            "admin_port": at.danube_admin_port,
            "grpc_port": at.grpc_port,
            "auth": required,
            "pid": os.getpid(),
            "data": str(data.absolute()),
            "recovery": None if recovery is None else {**asdict(recovery), "clean": recovery.clean},
        }
        click.echo(json.dumps(ready))
        sys.stdout.flush()
        return
    grpc = None if at.grpc_port is None else str(Address(host, at.grpc_port))
    _print_panel(url, http_url, grpc, data, recovery, warning or "clients need tokens")


def _print_panel(
    url: str,
    http_url: str | None,
    grpc: str | None,
    data: Path,
    recovery: RecoveryReport | None,
    security: str,
) -> None:
    from rich.panel import Panel
    from rich.table import Table

    program = own_program()
    elsewhere = "" if url == DEFAULT_URL else f" --url {url}"
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    grid.add_row("broker", url)
    if http_url is not None:
        grid.add_row("console", http_url)
        grid.add_row("http", f"{http_url}/docs")
    if grpc is not None:
        grid.add_row("Danube's clients", grpc)
    grid.add_row("data", str(data.absolute()))
    if recovery is not None:
        grid.add_row("journal", recovery_summary(recovery))
    grid.add_row("security", security, style="bold red" if security.startswith("OFF") else None)
    grid.add_row()
    grid.add_row("produce", f'{program}{elsewhere} produce /default/hello "hello"')
    grid.add_row("consume", f"{program}{elsewhere} consume /default/hello --from earliest")
    grid.add_row("stop", "Ctrl-C")
    panel = Panel.fit(grid, title=f"Sulina {__version__} is ready", border_style="green")
    console().print(panel)
    sys.stdout.flush()


def own_program() -> str:
    """The command to type for this command line: its path if it is not on the PATH."""
    if shutil.which("sulina"):
        return "sulina"
    script = Path(sys.argv[0])
    if script.name != "sulina":
        script = Path(sys.executable).with_name("sulina")
        if not script.exists():
            return f"{own_python()} -m sulina.cli"
    return os.path.relpath(script)


def own_python() -> str:
    """The command to type for the Python interpreter that runs this."""
    python = shutil.which("python")
    if python and os.path.samefile(Path(python).parent, Path(sys.executable).parent):
        return "python"
    return os.path.relpath(sys.executable)


def recovery_summary(recovery: RecoveryReport) -> str:
    """What was found in the journal at the start, in one line."""
    if not recovery.files:
        return "empty folder, new journal"
    line = (
        f"{plural(recovery.records, 'record')} in {plural(recovery.files, 'journal file')} "
        f"({size(recovery.bytes)}), checked in {recovery.seconds:.2f} s"
    )
    if recovery.damaged or recovery.corrupt_records:
        places = len(recovery.damaged) + recovery.corrupt_records
        return f"{line}; DAMAGED in {plural(places, 'place')}: the affected records are not served"
    if recovery.cut_bytes:
        return f"{line}; cut off {size(recovery.cut_bytes)} of incomplete, unacknowledged writes"
    return line if recovery.clean else f"{line}; the last stop was not clean"
