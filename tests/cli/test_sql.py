"""``sulina sql``: forms of results, and sentences for what goes wrong."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from sulina.cli.app import run
from tests.cli.runner import BlockingClient
from tests.support.server import SulinaProcess
from tests.support.shell import CommandResult

VALUES = r"SELECT 1.50::DECIMAL(9, 2) AS d, 'a\xFF'::BLOB AS b, MAP {'k': 1} AS m, NULL AS n"


class Sql:
    """``sulina sql`` in this process: loading DuckDB takes longer than a query."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._url = url
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> CommandResult:
        ran = run(["sql", "--url", self._url, *arguments])
        found = CommandResult(ran, *self._capsys.readouterr())
        assert ran == code, found
        return found


@pytest.fixture
def sql(shared_sulina_process: SulinaProcess, capsys: pytest.CaptureFixture[str]) -> Sql:
    return Sql(shared_sulina_process.url, capsys)


@pytest.fixture
def table(topic: str, direct: BlockingClient) -> str:
    direct.publish(topic, '{"id": 1}', "two", keys=["a", "ü"])
    return f'"{topic}"'


def test_rows_are_a_table_json_lines_or_csv(
    sql: Sql, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = f'SELECT "offset", key, payload, attributes FROM {table} ORDER BY 1'
    shown = sql(query).stdout
    assert "payload" in shown and '{"id": 1}' in shown and "ü" in shown
    lines = [json.loads(line) for line in sql(query, "--json").stdout.splitlines()]
    assert lines == [
        {"offset": 0, "key": "a", "payload": '{"id": 1}', "attributes": None},
        {"offset": 1, "key": "ü", "payload": "two", "attributes": None},
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO(query))
    assert sql("-", "--format", "json").stdout.count("\n") == 2
    rows = list(csv.reader(sql(query, "--format", "csv").stdout.splitlines()))
    assert rows[0] == ["offset", "key", "payload", "attributes"]
    assert rows[1:] == [["0", "a", '{"id": 1}', ""], ["1", "ü", "two", ""]]


def test_values_without_a_form_in_json_keep_their_exact_text(sql: Sql) -> None:
    (line,) = sql(VALUES, "--json").stdout.splitlines()
    assert json.loads(line) == {"d": "1.50", "b_base64": "Yf8=", "m": {"k": 1}, "n": None}
    rows = list(csv.reader(sql(VALUES, "--format", "csv").stdout.splitlines()))
    assert rows[1] == ["1.50", r"\x61ff", '{"k": 1}', ""]


def test_a_table_says_that_there_are_more_rows(sql: Sql) -> None:
    ran = sql("SELECT * FROM range(5000)")
    assert "999" in ran.stdout and "1000" not in ran.stdout
    assert "the first 1,000 rows" in ran.stderr
    assert sql("SELECT * FROM range(5000)", "--json").stdout.count("\n") == 5000


def test_what_does_not_exist_is_an_error(sql: Sql, table: str, tmp_path: Path) -> None:
    missing = sql("SELECT * FROM no_such_topic", code=1)
    assert "there is no topic /default/no_such_topic" in missing.stderr
    assert missing.stdout == ""
    assert 'column "colour" not found' in sql(f"SELECT colour FROM {table}", code=1).stderr
    assert "syntax error" in sql("SELEKT 1", code=1).stderr
    nowhere = sql("SELECT 1", "--url", "sulina://127.0.0.1:1", code=3)
    assert "no broker at 127.0.0.1:1" in nowhere.stderr
    nothing = sql(f"SELECT 1 FROM {table}", "--lake", str(tmp_path / "none"), code=1)
    assert "none does not exist" in nothing.stderr


def test_files_beside_topics_can_be_read_and_written(sql: Sql, table: str, tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    people.write_text("key,name\na,Ana\n")
    query = f"SELECT name FROM {table} JOIN '{people}' AS p ON decode({table}.key) = p.key"
    assert json.loads(sql(query, "--json").stdout) == {"name": "Ana"}
    sql(f"COPY (SELECT payload FROM {table}) TO '{tmp_path}/out.parquet'")
    read = sql(f"SELECT count(*) AS n FROM '{tmp_path}/out.parquet'", "--json")
    assert json.loads(read.stdout) == {"n": 2}
