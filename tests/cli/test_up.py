"""``sulina up``: start, ready line, clean stop, and errors at the start."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from tests.cli.runner import BlockingClient, SulinaCommand, finish
from tests.support.certificates import issue
from tests.support.fixtures import sulina_process as sulina_process
from tests.support.server import SulinaProcess

NOBODY = SulinaCommand("sulina://127.0.0.1:1")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_cleanly_and_data_survives_a_restart(
    sulina_process: SulinaProcess, number: signal.Signals
) -> None:
    sulina = SulinaCommand(sulina_process.url)
    direct = BlockingClient(sulina_process.url)
    direct.publish("/default/t", "one", "two", "three")
    sulina("consume", "/default/t", "--subscription", "s", "--from", "earliest", "--count", "1")
    assert sulina_process.stop(number) == 0
    assert "Traceback" not in sulina_process.log()
    sulina_process.start()
    assert sulina.url == sulina_process.url
    assert direct.read("/default/t") == ["one", "two", "three"]
    rest = ("consume", "/default/t", "--subscription", "s", "--count", "2")
    assert sulina(*rest).lines() == ["two", "three"]


def test_acknowledged_messages_survive_a_kill(sulina_process: SulinaProcess) -> None:
    sulina = SulinaCommand(sulina_process.url)
    sulina("produce", "/default/t", "one", "two")
    sulina_process.kill()
    assert not sulina_process.running
    sulina("ping", code=3)
    sulina_process.restart()
    assert sulina("peek", "/default/t").lines() == ["one", "two"]


def test_data_is_for_its_owner_alone_and_looser_files_are_named_at_the_start(
    sulina_process: SulinaProcess,
) -> None:
    SulinaCommand(sulina_process.url)("produce", "/default/t", "one")
    data = sulina_process.data
    everything = [data, *data.rglob("*")]
    assert len(everything) > 3
    assert not [path for path in everything if path.stat().st_mode & 0o077]
    sulina_process.stop()
    data.chmod(0o755)
    sulina_process.start()
    assert f"run `chmod -R go= {data}`" in sulina_process.log()


def test_clients_do_not_keep_it_from_stopping(sulina_process: SulinaProcess) -> None:
    sulina = SulinaCommand(sulina_process.url)
    BlockingClient(sulina_process.url).publish("/default/t", "one")
    process = sulina.start("consume", "/default/t", "--from", "earliest")
    assert process.stdout is not None
    assert process.stdout.readline() == b"one\n"
    assert sulina_process.stop() == 0
    process.send_signal(signal.SIGINT)
    assert finish(process).code == 130


def test_the_ready_line_has_port_process_and_folder(shared_sulina_process: SulinaProcess) -> None:
    ready = shared_sulina_process.ready
    assert ready["event"] == "ready"
    assert ready["url"] == f"sulina://127.0.0.1:{ready['port']}"
    assert ready["pid"] == shared_sulina_process.pid
    assert ready["data"] == str(shared_sulina_process.data)


def test_a_port_in_use_is_reported_in_a_sentence(
    shared_sulina_process: SulinaProcess, tmp_path: Path
) -> None:
    command = ("up", "--data", str(tmp_path / "other"), "--port", str(shared_sulina_process.port))
    ran = NOBODY(*command, code=1)
    assert f"can't listen on 127.0.0.1:{shared_sulina_process.port}" in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_folder_in_use_is_reported_in_a_sentence(shared_sulina_process: SulinaProcess) -> None:
    ran = NOBODY("up", "--data", str(shared_sulina_process.data), "--port", "0", code=1)
    assert "another process uses the folder" in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = NOBODY("up", "--data", str(tmp_path / "file" / "data"), "--port", "0", code=1)
    assert "is a file: choose a folder with --data" in ran.stderr


def test_the_panel_shows_addresses_and_commands(tmp_path: Path) -> None:
    process = NOBODY.start("up", "--data", str(tmp_path / "data"), "--port", "0")
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or not lines[-1].startswith("╰"):
        line = process.stdout.readline().decode()
        assert line, lines
        lines.append(line)
    shown = "".join(lines)
    for words in ("is ready", "sulina://127.0.0.1:", str(tmp_path), "produce /default/hello"):
        assert words in shown
    process.send_signal(signal.SIGINT)
    ran = finish(process)
    assert ran.code == 0
    assert "stopped; all data is stored" in ran.stderr


def test_no_auto_create_refuses_unknown_topics(tmp_path: Path) -> None:
    arguments = ("--no-auto-create", "--cache-mb", "8", "--journal-file-mb", "1")
    with SulinaProcess(tmp_path / "data", *arguments) as server:
        sulina = SulinaCommand(server.url)
        ran = sulina("produce", "/default/t", "x", code=1)
        assert "`sulina topic create /default/t`" in ran.stderr
        direct = BlockingClient(server.url)
        direct.admin("topic.create", topic="/default/t")
        direct.publish("/default/t", *["x" * 100_000] * 30)
        assert len(direct.read("/default/t")) == 30


def test_a_second_signal_ends_it_immediately() -> None:
    program = (
        "import asyncio\n"
        "from sulina.runtime.stop_signal import StopSignal\n"
        "async def main():\n"
        "    stop = StopSignal()\n"
        "    stop.ready = True\n"
        "    print('ready', flush=True)\n"
        "    await stop.received.wait()\n"
        "    print('stopping', flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    for said in (b"ready\n", b"stopping\n"):
        assert process.stdout.readline() == said
        process.send_signal(signal.SIGINT)
    assert finish(process).code == 130


def test_tls_is_served_and_unknown_certificates_are_refused(tmp_path: Path) -> None:
    files = issue(trustme.CA(), tmp_path, "broker")
    authority, key = str(files.ca), str(files.key)
    arguments = ("--tls-cert", str(files.certificate), "--tls-key", key)
    with SulinaProcess(tmp_path / "data", *arguments) as server:
        assert server.url.startswith("sulina+tls://")
        sulina = SulinaCommand(server.url)
        sulina("produce", "/default/t", "secret", "--tls-ca", authority)
        assert sulina("--tls-ca", authority, "peek", "/default/t").lines() == ["secret"]
        assert "check the certificates" in sulina("ping", code=1).stderr
    ran = NOBODY("up", "--tls-cert", key, "--data", str(tmp_path / "x"), code=1)
    assert "can't be used for TLS" in ran.stderr
