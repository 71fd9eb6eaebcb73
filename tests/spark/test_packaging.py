"""What goes to EMR: the package, and the request that starts a job."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import boto3
import pytest

from emr_jobs.package import (
    ARCHITECTURES,
    CODE,
    ENVIRONMENT,
    JOBS,
    pack_code,
    pack_environment,
    write_manifest,
)
from emr_jobs.package import main as package
from emr_jobs.submit import JobRun, job_request, upload
from emr_jobs.submit import main as submit
from localstack.emulators.server import EmulatorServer
from sulina.errors import Refused, Unavailable

ROLE = "arn:aws:iam::123456789012:role/jobs"
RUN = JobRun("ledger_audit", "00abc123", ROLE, "s3://code/sulina/")


# ---- the package ----


def test_the_packed_code_runs_without_the_source_tree(tmp_path: Path) -> None:
    pack_code(tmp_path)
    # As spark-submit does it: the archive first on the path, then the entry point.
    program = (
        "import runpy, sys; archive, *sys.argv = sys.argv[1:]; sys.path.insert(0, archive);"
        "import emr_jobs; assert archive in emr_jobs.__file__;"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    job = tmp_path / "jobs" / "ledger_audit.py"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / CODE), str(job), "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "examples:" in done.stdout


def test_the_same_code_gives_the_same_bytes(tmp_path: Path) -> None:
    pack_code(tmp_path / "a")
    pack_code(tmp_path / "b")
    assert (tmp_path / "a" / CODE).read_bytes() == (tmp_path / "b" / CODE).read_bytes()
    names = zipfile.ZipFile(tmp_path / "a" / CODE).namelist()
    assert "emr_jobs/jobs/ledger_audit.py" in names and "sulina/lake/layout.py" in names
    assert sorted(path.stem for path in (tmp_path / "a" / "jobs").iterdir()) == sorted(JOBS)


def test_the_manifest_tells_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert package(["--output", str(tmp_path), "--code-only"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads((tmp_path / "manifest.json").read_text()) == write_manifest(tmp_path)
    assert set(told["files"]) == {CODE, *(f"jobs/{job}.py" for job in JOBS)}


def test_the_manifest_names_the_architecture_of_the_environment_also_after_the_code_has_changed(
    tmp_path: Path,
) -> None:
    write_manifest(tmp_path, ARCHITECTURES["arm64"])
    for other in ARCHITECTURES:
        assert package(["--output", str(tmp_path), "--code-only", "--architecture", other]) == 0
        assert json.loads((tmp_path / "manifest.json").read_text())["machine"] == "aarch64"


def test_an_environment_that_can_not_be_made_says_why(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="does not exist"):
        pack_environment(tmp_path, tmp_path / "none.lock", sys.executable)
    (tmp_path / "some.lock").touch()
    with pytest.raises(Unavailable, match="false -m venv"):
        pack_environment(tmp_path, tmp_path / "some.lock", "false")


# ---- the request ----


def test_the_request_is_what_the_service_takes() -> None:
    request = job_request(
        JobRun(
            *("ledger_audit", "00abc123", ROLE, "s3://code/sulina/"),
            arguments=("--path", "s3://lake", "--topic", "/default/*"),
            logs="s3://logs/",
            spark={"spark.executor.memory": "8g"},
            tags={"team": "data"},
            token="once",
        )
    )
    driver = request["jobDriver"]["sparkSubmit"]
    assert driver["entryPoint"] == "s3://code/sulina/jobs/ledger_audit.py"
    assert driver["entryPointArguments"] == ["--path", "s3://lake", "--topic", "/default/*"]
    parameters = driver["sparkSubmitParameters"]
    for setting in (
        "spark.archives=s3://code/sulina/environment.tar.gz#environment",
        "spark.submit.pyFiles=s3://code/sulina/sulina.zip",
        "spark.emr-serverless.driverEnv.PYSPARK_PYTHON=./environment/bin/python",
        "spark.executorEnv.PYSPARK_PYTHON=./environment/bin/python",
        "spark.executorEnv.ARROW_ENABLE_UNSAFE_MEMORY_ACCESS=true",
        "spark.executor.memory=8g",
    ):
        assert setting in parameters
    assert (request["mode"], request["retryPolicy"]) == ("BATCH", {"maxAttempts": 3})
    assert request["clientToken"] == "once"


def test_a_stream_has_no_time_limit_and_fails_by_the_hour() -> None:
    request = job_request(JobRun(*_run(RUN), streaming=True, attempts=5))
    assert (request["mode"], request["executionTimeoutMinutes"]) == ("STREAMING", 0)
    assert request["retryPolicy"] == {"maxFailedAttemptsPerHour": 5}


def test_each_request_starts_a_new_run_by_default() -> None:
    assert job_request(RUN)["clientToken"] != job_request(RUN)["clientToken"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"job": "no_job"}, "there is no job"),
        ({"artifacts": "code/sulina"}, "artifacts must be an S3 URL"),
        ({"application": "Not-An-Id"}, "applicationId is"),
        ({"role": "jobs"}, "executionRoleArn"),
        ({"token": "x" * 65}, "clientToken is"),
    ],
)
def test_what_the_service_would_refuse_is_refused_here(wrong: dict[str, Any], told: str) -> None:
    names = ("job", "application", "role", "artifacts")
    values = {**dict(zip(names, _run(RUN), strict=True)), **wrong}
    with pytest.raises(Refused, match=told):
        job_request(JobRun(**values))


def test_a_dry_run_tells_the_request_and_mistakes_are_sentences(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--application", "00abc123", "--role", ROLE, "--dry-run", "--artifacts"]
    assert submit(["compaction", *options, "s3://code", "--", "--table", "s3://t"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["jobDriver"]["sparkSubmit"]["entryPointArguments"] == ["--table", "s3://t"]
    assert submit(["compaction", *options, "code"]) == 2
    assert "artifacts must be an S3 URL" in capsys.readouterr().err


def test_an_emulated_account_takes_the_package_and_the_request(
    tmp_path: Path, moto: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in moto.variables.items():
        monkeypatch.setenv(name, value)
    pack_code(tmp_path)
    with tarfile.open(tmp_path / ENVIRONMENT, "w:gz"):
        pass
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="spark-code")
    keys = upload(tmp_path, "s3://spark-code/sulina", s3)
    assert "sulina/sulina.zip" in keys and "sulina/jobs/compaction.py" in keys
    emr = boto3.client("emr-serverless")
    made = emr.create_application(name="sulina", releaseLabel="emr-7.0.0", type="SPARK")
    run = JobRun("compaction", made["applicationId"], ROLE, "s3://spark-code/sulina")
    assert emr.start_job_run(**job_request(run))["jobRunId"]


def _run(run: JobRun) -> tuple[str, str, str, str]:
    return run.job, run.application, run.role, run.artifacts
