"""Servers that must be given or fetched: what is said when they are not there."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import fetch
from benchmarks.__main__ import list_systems
from benchmarks.systems import SYSTEMS


@pytest.fixture(autouse=True)
def _nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fetch, "SERVERS", tmp_path / "servers")
    monkeypatch.setenv("PATH", str(tmp_path))
    for server in fetch.FETCHED:
        monkeypatch.delenv(server.variable, raising=False)


@pytest.mark.parametrize("server", fetch.FETCHED, ids=lambda server: server.variable)
def test_without_server_and_tool_one_sentence_says_how_to_get_both(
    server: fetch.FetchedServer,
) -> None:
    assert server.found() is None
    sentence = server.missing()
    assert server.variable in sentence
    assert server.remedy in sentence
    with pytest.raises(fetch.CannotFetch, match=server.variable):
        server.fetch()


def test_a_variable_that_names_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_HOME", "/nowhere")
    assert fetch.KAFKA.missing() == "Kafka is not measured: KAFKA_HOME=/nowhere does not exist"


def test_the_list_of_systems_says_what_each_of_the_missing_ones_needs() -> None:
    console = Console(record=True, width=500, file=io.StringIO())
    assert list_systems(console) == 0
    lines = {line.split()[0]: line for line in console.export_text().splitlines()}
    assert lines.keys() == SYSTEMS.keys()
    assert "set DANUBE_BROKER" in lines["danube"]
    assert "Java" in lines["kafka"]


def test_a_folder_that_is_given_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "kafka-clients-4.9.1.jar").touch()
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    assert SYSTEMS["kafka"].version() == "4.9.1"
