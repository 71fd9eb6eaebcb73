"""Storage nodes as processes: settings; stopped, killed, frozen, wiped, full, started again."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from storage_grpc.node import MaybeLost, Node
from storage_grpc.service.settings import ServiceSettings, describe, load
from sulina.errors import NotFound, Refused, UnknownOutcome
from sulina.runtime.tls_files import TlsFiles
from tests.storage_service.process import StorageProcess, storage_processes
from tests.storage_service.serving import remote


def content(entry: int) -> bytes:
    return b"%d " % entry * 2000


async def append(node: Node, count: int, first: int = 0) -> list[BaseException | None]:
    """Append entries to ledger 1; returns their outcomes."""
    waiting = [node.append(1, n, -1, content(n)) for n in range(first, first + count)]
    return await asyncio.gather(*waiting, return_exceptions=True)


async def check(node: Node, acknowledged: int) -> None:
    """Every acknowledged entry is present, with its bytes."""
    entry = 0
    while entry < acknowledged:
        for found in await node.read(1, entry, max_entries=1000, max_bytes=1 << 20):
            assert bytes(found.payload) == content(found.entry)
            entry = found.entry + 1


async def test_a_node_that_was_stopped_has_everything_and_is_sure_of_it(tmp_path: Path) -> None:
    with storage_processes(tmp_path, 1) as [process]:
        async with remote(process.port) as node:
            assert await append(node, 200) == [None] * 200
            # In the middle of a stream: received entries are answered before the end.
            last = node.append(1, 200, 199, content(200))
            assert await process.end(signal.SIGTERM) == 0
            (outcome,) = await asyncio.gather(last, return_exceptions=True)
            assert outcome is None or isinstance(outcome, UnknownOutcome)
            before = process.ready
            await process.start()
            assert process.ready["incarnation"] == before["incarnation"]
            assert process.ready["unclean"] is False
        async with remote(process.port) as node:
            await check(node, 201 if outcome is None else 200)
        assert await process.end(signal.SIGINT) == 0
        assert process.log() == ""


async def test_a_killed_node_loses_nothing_and_is_sure_of_it(tmp_path: Path) -> None:
    with storage_processes(tmp_path, 1) as [process]:
        async with remote(process.port) as node:
            await node.append(1, 0, -1, content(0))
            appending = asyncio.create_task(append(node, 2000, first=1))
            await node.append(2, 0, -1, b"in the middle of it")
            process.kill()
            outcomes = await appending
            acknowledged = 1 + outcomes.index(
                next((outcome for outcome in outcomes if outcome is not None), None)
            )
            assert {type(outcome) for outcome in outcomes} <= {type(None), UnknownOutcome}
            await process.start()
            assert process.ready["unclean"] is False
            async with remote(process.port) as again:
                assert again.id == node.id
                await check(again, acknowledged)
                with pytest.raises(NotFound):
                    await again.read(3, 0, max_entries=1, max_bytes=1)


async def test_a_node_that_was_killed_with_its_system_says_that_it_is_not_sure(
    tmp_path: Path,
) -> None:
    with storage_processes(tmp_path, 1) as [process]:
        process.kill()
        process.pretend_reboot()
        await process.start()
        assert process.ready["unclean"] is True
        async with remote(process.port) as node:
            with pytest.raises(MaybeLost):
                await node.read(3, 0, max_entries=1, max_bytes=1)


async def test_the_command_line_runs_the_same_node(tmp_path: Path) -> None:
    process = StorageProcess(tmp_path, 1, "sulina.cli", "storage")
    try:
        await process.start()
        async with remote(process.port) as node:
            assert await append(node, 10) == [None] * 10
        assert await process.end() == 0
        assert process.log() == ""
    finally:
        process.kill()


async def test_what_a_node_cannot_do_is_a_sentence_and_not_a_traceback(tmp_path: Path) -> None:
    with storage_processes(tmp_path, 1) as [process]:
        for arguments, told in (
            (("--data", str(tmp_path / "other"), "--port", str(process.port)), "can't listen"),
            (("--data", str(process.data), "--port", "0"), "another process uses the folder"),
            (("--port", "many"), "must be a whole number"),
        ):
            failed = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "storage_grpc", *arguments),
                stderr=asyncio.subprocess.PIPE,
                cwd=Path(__file__).parents[2],
            )
            _, said = await failed.communicate()
            assert failed.returncode in (1, 2)
            assert told in said.decode()
            assert "Traceback" not in said.decode()


def test_nothing_set_gives_the_defaults() -> None:
    assert load({}, {"PATH": "/bin"}) == ServiceSettings()
    assert ServiceSettings().port == 6660


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('id = "from-file"\nport = 1\nhost = "h1"\nstop_seconds = 2\ndata = "d"\n')
    environment = {"SULINA_STORAGE_PORT": "2", "SULINA_STORAGE_HOST": "h2"}
    settings = load({"config": str(file), "host": "h3", "port": None}, environment)
    assert settings == ServiceSettings(
        id="from-file", port=2, host="h3", stop_seconds=2.0, data=Path("d")
    )


def test_the_environment_may_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text("port = 7")
    assert load({}, {"SULINA_STORAGE_CONFIG": str(file)}).port == 7


def test_sizes_reach_the_journal() -> None:
    journal = ServiceSettings(journal_file_mb=8, max_entry_mb=2, max_pending_mb=3).journal
    assert journal.file_bytes == 8 << 20
    assert (journal.max_entry_bytes, journal.max_pending_bytes) == (2 << 20, 3 << 20)


def test_tls_is_set_like_everything_else() -> None:
    environment = {"SULINA_STORAGE_TLS_CERT": "node.pem", "SULINA_STORAGE_TLS_CA": "ca.pem"}
    settings = load({"tls_clients": "certificate"}, environment)
    assert settings.tls == TlsFiles(Path("ca.pem"), Path("node.pem"))
    assert ServiceSettings().tls is None


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"port": "x"}, "invalid value for --port: 'x'; it must be a whole number"),
        ({"port": "70000"}, "from 0 to 65535"),
        ({"id": "a@b"}, "invalid value for id"),
        ({"max_entry_mb": "0"}, "more than 0"),
        ({"stop_seconds": "soon"}, "--stop-seconds: 'soon'; it must be a number"),
        ({"log_level": "loud"}, "choose from debug"),
        ({"journal_file_mb": "999999"}, "invalid size of a journal file"),
        ({"config": "/nowhere/at/all.toml"}, "can't be read"),
        ({"tls_key": "node.key"}, "need tls_cert"),
        ({"tls_cert": "node.pem", "tls_clients": "certificate"}, "needs tls_ca"),
        ({"tls_cert": "node.pem", "tls_clients": "all"}, "any or certificate"),
    ],
)
def test_a_mistake_is_told_with_the_remedy(flags: dict[str, str], told: str) -> None:
    with pytest.raises(Refused, match=told):
        load(flags, {})


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("prot = 1", "unknown settings in .*: prot"),
        ("port = true", "port in .*: True"),
        ("port = 1.5", "must be a whole number"),
        ("port =", "can't be read"),
    ],
)
def test_a_mistake_in_the_file_is_told(tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "node.toml"
    file.write_text(content)
    with pytest.raises(Refused, match=told):
        load({"config": str(file)}, {})


def test_every_setting_has_a_help() -> None:
    assert all(text for _, text, _ in describe())


def test_every_setting_is_documented_with_its_default_and_help() -> None:
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    for name, text, default in describe():
        shown = "none" if default == "" else default
        assert f"| `{name}` | {shown} | {text[0].upper()}{text[1:]}. |" in page
