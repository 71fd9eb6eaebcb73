"""Runs the tests of Danube's repositories in the user's checkouts, with their own runners.

Nothing of theirs is copied or changed; their runners write what they build into the checkout, as
always. Every run has a deadline; at the end no process of it is left.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.danube.conformance import results
from tests.danube.conformance.edge import edge_broker
from tests.danube.conformance.results import Case
from tests.danube.conformance.servers import AUTHORIZED, DENIED, ONE, Secured, Servers

BUILD_SECONDS: Final = 3 * 3600.0
RUN_SECONDS: Final = 3600.0
_PACKAGES: Final = ("danube-broker", "danube-admin", "danube-cli", "danube-edge")
_CARGO: Final = ("cargo", "test", *(part for name in _PACKAGES for part in ("-p", name)))


class CannotRun(Exception):
    """A suite did not run to its end; the message says why."""


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of one repository."""

    name: str
    option: str
    """The command's option that takes its checkout."""
    marker: str
    """A path in the checkout by which it is recognized."""
    programs: tuple[str, ...]
    """What must be installed."""
    run: Callable[[Path, Servers, Path], list[Case]]
    """Takes the checkout, the servers and a folder for logs. Raises ``CannotRun``."""

    def missing(self, checkout: Path | None) -> str:
        """Why it can't run here, or an empty string."""
        if checkout is None:
            return f"no checkout: pass {self.option} PATH"
        if not (checkout / self.marker).exists():
            return f"{checkout} is not a checkout of {self.name}: it has no {self.marker}"
        absent = [name for name in self.programs if shutil.which(name) is None]
        return f"not installed: {', '.join(absent)}" if absent else ""


def build_rust(checkout: Path, folder: Path) -> None:
    """Compile the tests and the tools that they call; the first time takes long."""
    _run((*_CARGO, "--no-run", "--test", "*"), checkout, _rust(folder), folder, BUILD_SECONDS)


def run_rust(checkout: Path, servers: Servers, folder: Path) -> list[Case]:
    """All integration tests, those that are ignored by default included.

    Not the tests of security, which need other servers, and in one process not those that move a
    topic to another broker. They run one at a time, as in Danube's own workflow. Beside them runs
    an edge broker of Danube's, which replicates to the servers.
    """
    build_rust(checkout, folder)
    skipped = ("security_", *(("reliable_topic_move_",) if servers.kind == ONE else ()))
    arguments = ("--include-ignored", *(part for name in skipped for part in ("--skip", name)))
    programs = _programs(checkout)
    variables = {
        "DANUBE_BROKER_ENDPOINT": servers.url,
        "DANUBE_ADMIN_ENDPOINT": servers.admin_url,
        "DANUBE_ADMIN_BIN": str(programs / "danube-admin"),
        "CLOUD_BROKER_ENDPOINT": servers.url,
    }
    with edge_broker(programs, servers, folder) as edge_url:
        variables["EDGE_BROKER_ENDPOINT"] = edge_url
        return _cargo_test(checkout, folder, variables, "*", arguments)


def run_security(checkout: Path, secured: Secured, folder: Path) -> list[Case]:
    """The tests of security, with tokens that Danube's own tool makes."""
    build_rust(checkout, folder)
    tool = _programs(checkout) / "danube-admin"

    def token(subject: str) -> str:
        command = (str(tool), "security", "tokens", "create", "--subject", subject)
        options = ("--type", "service_account", "--secret-key", secured.key)
        return _run((*command, *options), checkout, {}, folder, 60).strip()

    variables = {
        "DANUBE_BROKER_ENDPOINT": secured.url,
        "DANUBE_CA_CERT": str(secured.authority),
        "DANUBE_AUTHORIZED_TOKEN": token(AUTHORIZED),
        "DANUBE_DENIED_TOKEN": token(DENIED),
    }
    return _cargo_test(checkout, folder, variables, "security_e2e", ("--ignored",))


def _cargo_test(
    checkout: Path,
    folder: Path,
    variables: Mapping[str, str],
    tests: str,
    arguments: Sequence[str],
) -> list[Case]:
    command = (*_CARGO, "--no-fail-fast", "--test", tests, "--", "--test-threads=1", *arguments)
    environment = {**_rust(folder), **variables}
    output = _run(command, checkout, environment, folder, RUN_SECONDS, may_fail=True)
    files = {path.stem: path.parts[-3] for path in checkout.glob("*/tests/*.rs")}
    return _some(
        [
            Case(f"{files[each.name.partition('::')[0]]}/{each.name}", each.outcome, each.detail)
            for each in results.read_cargo(output)
        ],
        output,
    )


def run_go(checkout: Path, servers: Servers, folder: Path) -> list[Case]:
    """danube-go's integration tests."""
    command = ("go", "test", "-json", "-count=1", "-timeout=30m", "./integration_tests/...")
    variables = {"DANUBE_BROKER_URL": servers.url}
    output = _run(command, checkout, variables, folder, RUN_SECONDS, may_fail=True)
    return _some(results.read_go("danube-go", output), output)


def run_python(checkout: Path, servers: Servers, folder: Path) -> list[Case]:
    """danube-py's integration tests, by the interpreter of its ``.venv``, or by ours."""
    own = checkout / ".venv" / "bin" / "python"
    python = str(own) if own.exists() else sys.executable
    report = folder / "danube-py.xml"
    report.unlink(missing_ok=True)
    options = ("--timeout=120", f"--junitxml={report}", "-p", "no:cacheprovider")
    command = (python, "-m", "pytest", "integration_tests", *options)
    variables = {"DANUBE_BROKER_URL": servers.url, "PYTHONPATH": str(checkout)}
    output = _run(command, checkout, variables, folder, RUN_SECONDS, may_fail=True)
    documents = [report.read_text()] if report.exists() else []
    return _some(results.read_junit("danube-py", documents), output)


def run_java(checkout: Path, servers: Servers, folder: Path) -> list[Case]:
    """danube-java's integration tests."""
    command = ("mvn", "-B", "-pl", "danube-client", "-am", "verify", "-P", "integration-tests")
    variables = {"DANUBE_BROKER_URL": servers.url}
    reports = checkout / "danube-client" / "target" / "failsafe-reports"
    begun = time.time()
    output = _run(command, checkout, variables, folder, RUN_SECONDS, may_fail=True)
    fresh = [path for path in reports.glob("TEST-*.xml") if path.stat().st_mtime >= begun - 1]
    return _some(results.read_junit("danube-java", map(Path.read_text, fresh)), output)


RUST: Final = Suite("danube", "--danube", "danube-broker/tests", ("cargo",), run_rust)
SUITES: Final = (
    RUST,
    Suite("danube-py", "--python", "integration_tests/conftest.py", (), run_python),
    Suite("danube-go", "--go", "integration_tests", ("go",), run_go),
    Suite("danube-java", "--java", "danube-client/pom.xml", ("mvn", "java"), run_java),
)


def _programs(checkout: Path) -> Path:
    """The folder of Danube's programs, which the build of the tests has made."""
    command = ("cargo", "metadata", "--no-deps", "--format-version", "1")
    done = subprocess.run(command, cwd=checkout, capture_output=True, check=True, timeout=60)
    return Path(json.loads(done.stdout)["target_directory"]) / "debug"


def _rust(folder: Path) -> dict[str, str]:
    """For cargo. Danube's build needs protoc: that of grpcio-tools where none is installed."""
    variables = {"RUST_BACKTRACE": "0"}
    if "PROTOC" in os.environ or shutil.which("protoc"):
        return variables
    script = folder / "protoc"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m grpc_tools.protoc "$@"\n')
    script.chmod(0o700)
    return {**variables, "PROTOC": str(script)}


def _some(cases: list[Case], output: str) -> list[Case]:
    """The cases, of which there must be one."""
    if not cases:
        raise CannotRun(f"it ran no test: {_end(output)}")
    return cases


def _run(
    command: Sequence[str],
    checkout: Path,
    variables: Mapping[str, str],
    folder: Path,
    seconds: float,
    *,
    may_fail: bool = False,
) -> str:
    """What a command wrote. Raises ``CannotRun`` if it fails, or does not end in time."""
    log = folder / f"{Path(command[0]).name}.log"
    with log.open("w+b") as output:
        process = subprocess.Popen(
            command,
            cwd=checkout,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise CannotRun(f"{command[0]} did not end within {seconds:g} s: see {log}") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        text = output.read().decode(errors="replace")
    if code and not may_fail:
        raise CannotRun(f"`{' '.join(command)}` failed: {_end(text)}")
    return text


def _end(output: str) -> str:
    return "\n".join(output.strip().splitlines()[-15:]) or "it wrote nothing"
