"""Start a job on EMR Serverless: build the StartJobRun request, check it, send it.

The request is checked against botocore's service model, so that a misspelled or missing field is
found without calling AWS.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from emr_jobs.java import FAST_ARROW
from emr_jobs.package import CODE, ENVIRONMENT, JOBS
from sulina.errors import Refused, SulinaError, Unavailable

_EXAMPLES: Final = """\
examples:
  python -m emr_jobs.submit ledger_audit --application 00abc123 --artifacts s3://code/sulina \\
      --role arn:aws:iam::123456789012:role/jobs --dry-run -- --path s3://lake --topic '/default/*'
  python -m emr_jobs.submit compaction ... --upload dist/emr --logs s3://logs/emr \\
      -- --path s3://lake --topic '/default/*' --table s3://tables/orders"""


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run of a job."""

    job: str
    application: str
    role: str
    artifacts: str
    """Where the files of ``emr_jobs.package`` are: s3://bucket/prefix."""
    arguments: tuple[str, ...] = ()
    logs: str = ""
    streaming: bool = False
    attempts: int = 3
    """Maximum attempts of a batch job, or failures per hour of a streaming job."""
    timeout_minutes: int = 12 * 60
    """0 means no limit; streaming jobs have none."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Additional Spark settings."""
    tags: Mapping[str, str] = field(default_factory=dict)
    token: str = ""
    """The client token: requests with the same token start one run. By default it is random."""


def job_request(run: JobRun) -> dict[str, Any]:
    """The StartJobRun request. Raises ``Refused`` if it is invalid."""
    if run.job not in JOBS:
        raise Refused(f"there is no job {run.job!r}: choose from {', '.join(JOBS)}")
    artifacts = run.artifacts.rstrip("/")
    if not artifacts.startswith("s3://"):
        raise Refused(f"artifacts must be an S3 URL such as s3://bucket/prefix: {run.artifacts!r}")
    request: dict[str, Any] = {
        "applicationId": run.application,
        "executionRoleArn": run.role,
        "name": f"sulina-{run.job.replace('_', '-')}",
        "mode": "STREAMING" if run.streaming else "BATCH",
        "retryPolicy": (
            {"maxFailedAttemptsPerHour": run.attempts}
            if run.streaming
            else {"maxAttempts": run.attempts}
        ),
        "executionTimeoutMinutes": 0 if run.streaming else run.timeout_minutes,
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": f"{artifacts}/jobs/{run.job}.py",
                "entryPointArguments": list(run.arguments),
                "sparkSubmitParameters": _parameters(artifacts, run.spark),
            }
        },
    }
    if run.logs:
        request["configurationOverrides"] = {
            "monitoringConfiguration": {"s3MonitoringConfiguration": {"logUri": run.logs}}
        }
    if run.tags:
        request["tags"] = dict(run.tags)
    request["clientToken"] = run.token or uuid.uuid4().hex
    check(request)
    return request


def check(request: Mapping[str, Any]) -> None:
    """Raises ``Refused`` if the StartJobRun request does not match the service model."""
    import botocore.session
    from botocore.validate import ParamValidator

    model = botocore.session.get_session().get_service_model("emr-serverless")
    shape = model.operation_model("StartJobRun").input_shape
    report = ParamValidator().validate(dict(request), shape)
    problems = [report.generate_report()] if report.has_errors() else []
    for name, member in shape.members.items():
        # botocore does not check lengths and patterns of strings.
        value, rules = request.get(name), member.metadata
        if isinstance(value, str) and (
            len(value) > rules.get("max", len(value))
            or not re.fullmatch(rules.get("pattern", ".*"), value, re.DOTALL)
        ):
            problems.append(f"{name} is {value!r} but must match {rules.get('pattern')}")
    if problems:
        raise Refused(f"invalid StartJobRun request: {'; '.join(problems)}")


def upload(folder: Path, artifacts: str, client: Any) -> list[str]:
    """Upload the files of ``emr_jobs.package`` to where runs expect them. Returns the keys."""
    bucket, _, prefix = artifacts.removeprefix("s3://").partition("/")
    files = [folder / CODE, folder / ENVIRONMENT, *sorted((folder / "jobs").glob("*.py"))]
    keys = []
    for path in files:
        if not path.exists():
            raise Refused(f"{path} is missing: run python -m emr_jobs.package first")
        key = "/".join(filter(None, (prefix.strip("/"), path.relative_to(folder).as_posix())))
        client.upload_file(str(path), bucket, key)
        keys.append(key)
    return keys


def main(argv: Sequence[str]) -> int:
    """Start a job, or with ``--dry-run`` print the request. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m emr_jobs.submit",
        usage="%(prog)s JOB [options] -- [job arguments]",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--application", required=True, help="id of the EMR application")
    parser.add_argument("--role", required=True, help="ARN of the job's role")
    parser.add_argument("--artifacts", required=True, help="s3://bucket/prefix of the package")
    parser.add_argument("--upload", type=Path, help="upload the package in this folder first")
    parser.add_argument("--logs", default="", help="s3://bucket/prefix for logs")
    parser.add_argument(
        "--attempts",
        type=int,
        default=3,
        help="maximum attempts, or failures per hour with --streaming (default: 3)",
    )
    parser.add_argument(
        "--timeout-minutes",
        type=int,
        default=12 * 60,
        help="cancel the run after this time; not with --streaming (default: 720)",
    )
    parser.add_argument("--streaming", action="store_true", help="run until it is stopped")
    parser.add_argument(
        "--conf", action="append", default=[], help="a Spark setting: spark.x=y", metavar="K=V"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the request, send nothing")
    own, _, behind = "\0".join(argv).partition("\0--\0")
    given = parser.parse_args(own.split("\0") if own else [])
    try:
        request = job_request(
            JobRun(
                job=given.job,
                application=given.application,
                role=given.role,
                artifacts=given.artifacts,
                arguments=tuple(behind.split("\0")) if behind else (),
                logs=given.logs,
                streaming=given.streaming,
                attempts=given.attempts,
                timeout_minutes=given.timeout_minutes,
                spark=dict(_setting(text) for text in given.conf),
            )
        )
        answer = request if given.dry_run else _start(request, given.upload, given.artifacts)
    except SulinaError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2 if isinstance(error, Refused) else 3
    sys.stdout.write(json.dumps(answer, indent=2) + "\n")
    return 0


def _start(request: dict[str, Any], package: Path | None, artifacts: str) -> dict[str, Any]:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        if package is not None:
            upload(package, artifacts, boto3.client("s3"))
        answer = boto3.client("emr-serverless").start_job_run(**request)
    except (BotoCoreError, ClientError) as error:
        raise Unavailable(f"starting the job failed: {error}") from None
    return {name: answer[name] for name in ("applicationId", "jobRunId", "arn")}


def _parameters(artifacts: str, more: Mapping[str, str]) -> str:
    """spark-submit's parameters: Sulina's code, the environment, and its Python everywhere."""
    python = "./environment/bin/python"
    settings = {
        "spark.archives": f"{artifacts}/{ENVIRONMENT}#environment",
        "spark.submit.pyFiles": f"{artifacts}/{CODE}",
        "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": python,
        "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": python,
        "spark.executorEnv.PYSPARK_PYTHON": python,
        "spark.sql.session.timeZone": "UTC",
        **{f"spark.emr-serverless.driverEnv.{name}": FAST_ARROW[name] for name in FAST_ARROW},
        **{f"spark.executorEnv.{name}": FAST_ARROW[name] for name in FAST_ARROW},
        **more,
    }
    return " ".join(f"--conf {shlex.quote(f'{name}={value}')}" for name, value in settings.items())


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Refused(f"--conf {text!r} must have the form name=value")
    return name, value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
