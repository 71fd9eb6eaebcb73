"""Errors are one sentence with a remedy, and the exit code tells their type."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.cli.blocking_client import BlockingClient
from tests.cli.runner import COMMAND, SulinaCommand


@pytest.fixture
def nobody() -> SulinaCommand:
    """A URL on which nothing listens."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return SulinaCommand(f"sulina://127.0.0.1:{probe.getsockname()[1]}")


@pytest.mark.parametrize(
    "command",
    [
        ("ping",),
        ("produce", "/default/t", "x"),
        ("consume", "/default/t"),
        ("peek", "/default/t"),
        ("bench",),
        ("topic", "list"),
    ],
)
def test_without_a_broker_the_error_names_the_remedy(
    nobody: SulinaCommand, command: tuple[str, ...]
) -> None:
    ran = nobody(*command, code=3)
    address = nobody.url.removeprefix("sulina://")
    assert ran.stderr == f"sulina: no broker at {address}: is `sulina up` running?\n"
    assert ran.stdout == ""


def test_with_json_the_error_is_json_too(nobody: SulinaCommand) -> None:
    told = json.loads(nobody("ping", "--json", code=3).stderr)
    assert told["error"] == "Unavailable"
    assert "is `sulina up` running?" in told["message"]


def test_debugging_prints_the_traceback(nobody: SulinaCommand) -> None:
    done = subprocess.run(
        [*COMMAND, "ping"],
        env={**nobody.environment, "SULINA_DEBUG": "1"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert b"Traceback" in done.stderr


def test_an_invalid_url_is_explained(nobody: SulinaCommand) -> None:
    ran = nobody("ping", "--url", "http://127.0.0.1", code=1)
    assert "use sulina://host:port" in ran.stderr


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        (("topic", "create", "orders"), "use /namespace/topic"),
        (("namespace", "create", "a/b"), "use letters, digits"),
        (("nonsense",), "No such command"),
        (("ping", "--timeout", "0"), "--timeout"),
        (("bench", "--count", "1", "--seconds", "1"), "not both"),
    ],
)
def test_an_invalid_command_line_fails_before_anything_is_done(
    nobody: SulinaCommand, command: tuple[str, ...], remedy: str
) -> None:
    assert remedy in nobody(*command, code=2).stderr


def test_a_missing_subscription_is_named(
    sulina: SulinaCommand, direct: BlockingClient, topic: str
) -> None:
    direct.admin("topic.create", topic=topic)
    ran = sulina("subscription", "describe", topic, "none", code=1)
    assert "'none'" in ran.stderr and ran.stderr.count("\n") == 1


def test_a_flag_overrides_the_environment_and_the_last_one_wins(
    sulina: SulinaCommand, nobody: SulinaCommand
) -> None:
    assert nobody("--url", sulina.url, "ping").code == 0
    assert nobody("--url", nobody.url, "ping", "--url", sulina.url).code == 0


def test_without_its_packages_the_command_line_says_what_to_install() -> None:
    program = "import sys; sys.modules['click'] = None; from sulina.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "ping"],
        env=dict(os.environ),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    text = done.stderr.decode()
    assert "pip install 'sulina[cli]'" in text and "Traceback" not in text
