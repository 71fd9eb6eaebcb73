"""Jobs are started once for each call, and never while the same job is under way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from functions.analytics import handler as analytics
from functions.analytics.handler import handler
from sulina.errors import Refused
from tests.functions.conftest import FunctionAccount
from tests.functions.emr import Emr

ROLE = "arn:aws:iam::123456789012:role/jobs"


@pytest.fixture(autouse=True)
def told(account: FunctionAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "SULINA_EMR_APPLICATION": "00f1r2s3t4u5v6w7",
        "SULINA_JOB_ROLE": ROLE,
        "SULINA_JOBS": "s3://lab/jobs/",
        "SULINA_JOB_LOGS": "s3://lab/job-logs/",
        "SULINA_TABLES": "s3://lake/tables/",
        "SULINA_LAKE": "s3://lake?region=eu-central-1",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def emr(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emr]:
    with Emr() as running:
        client = boto3.client("emr-serverless", endpoint_url=running.url)
        monkeypatch.setattr(analytics, "client", lambda service: client)
        yield running


def arguments_of(request: dict[str, Any]) -> list[str]:
    found: list[str] = request["jobDriver"]["sparkSubmit"]["entryPointArguments"]
    return found


def test_a_job_is_started_with_the_request_of_the_jobs_own_package(emr: Emr) -> None:
    answer = handler({"job": "audit", "execution": "1"}, None)
    assert answer == {"job": "audit", "run": "run1000", "started": True}
    [request] = emr.requests
    assert request["executionRoleArn"] == ROLE
    submit = request["jobDriver"]["sparkSubmit"]
    assert submit["entryPoint"] == "s3://lab/jobs/jobs/ledger_audit.py"
    assert arguments_of(request) == ["--path", "s3://lake", "--topic", "/*", "--allow-empty"]
    assert request["retryPolicy"] == {"maxAttempts": 1}


def test_a_job_that_is_under_way_is_not_started_again_and_another_one_is(emr: Emr) -> None:
    first = handler({"job": "audit", "execution": "1"}, None)
    again = handler({"job": "audit", "execution": "2"}, None)
    assert again == {**first, "started": False}
    assert handler({"job": "compaction", "execution": "2"}, None)["started"]
    emr.end(first["run"])
    assert handler({"job": "audit", "execution": "3"}, None)["started"]


def test_a_call_that_is_repeated_starts_one_run_even_when_that_has_ended(emr: Emr) -> None:
    first = handler({"job": "audit", "scheduled": "2026-05-01T01:00:00Z"}, None)
    emr.end(first["run"])
    again = handler({"job": "audit", "scheduled": "2026-05-01T01:00:00Z"}, None)
    assert again["run"] == first["run"]
    assert len(emr.runs) == 1


class CallContext:
    aws_request_id = "one-call"


def test_without_a_schedule_the_call_itself_is_what_is_not_repeated(emr: Emr) -> None:
    for _ in range(2):
        emr.end(handler({"job": "audit"}, CallContext())["run"])
    assert len(emr.runs) == 1


def test_of_two_calls_in_the_same_moment_the_older_run_goes_on(emr: Emr) -> None:
    emr.also = [emr.run("sulina-ledger-audit", 1)]
    answer = handler({"job": "audit", "execution": "1"}, None)
    assert answer == {"job": "audit", "run": "run1", "started": False}
    assert emr.under_way() == ["run1"]
    emr.end("run1")
    emr.also = [emr.run("sulina-ledger-audit", 9999)]  # the other one will see ours
    answer = handler({"job": "audit", "execution": "2"}, None)
    assert answer["started"]
    assert emr.under_way() == ["run9999", answer["run"]]


def test_statistics_are_of_the_day_before_and_compaction_goes_to_its_table(emr: Emr) -> None:
    handler({"job": "statistics", "scheduled": "2026-05-01T01:00:00Z", "topic": "/a/*"}, None)
    handler({"job": "compaction", "arguments": ["--file-records", "9"]}, None)
    statistics, compaction = map(arguments_of, emr.requests)
    assert statistics == [
        *("--path", "s3://lake", "--topic", "/a/*"),
        *("--start-time", "2026-04-30T00:00:00Z", "--end-time", "2026-05-01T00:00:00Z"),
        *("--output", "s3://lake/tables/statistics/date=2026-04-30"),
    ]
    assert compaction[5:] == ["--table", "s3://lake/tables/records", "--file-records", "9"]


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"job": "mining"},
        {"job": "audit", "topic": 7},
        {"job": "audit", "arguments": "--top 1"},
        {"job": "audit", "scheduled": "tomorrow"},
        {"job": "audit", "jub": "audit"},
    ],
)
def test_events_that_make_no_sense_are_refused(emr: Emr, event: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        handler(event, None)
    assert emr.requests == []


def test_a_request_that_aws_would_not_take_is_refused_before_it_is_sent(
    emr: Emr, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SULINA_JOB_ROLE", "no role")
    with pytest.raises(Refused, match="executionRoleArn is 'no role'"):
        handler({"job": "audit"}, None)
    assert emr.requests == []


def test_an_emulated_aws_takes_the_request(
    account: FunctionAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    emr = account.client("emr-serverless")
    application = emr.create_application(name="a", releaseLabel="emr-7.0.0", type="SPARK")
    monkeypatch.setenv("SULINA_EMR_APPLICATION", application["applicationId"])
    # An application that never ran anything has no list of runs there.
    before = {"applicationId": application["applicationId"], "executionRoleArn": ROLE}
    emr.start_job_run(**before, clientToken="before")
    answer = handler({"job": "statistics", "execution": "1"}, None)
    run = emr.get_job_run(applicationId=application["applicationId"], jobRunId=answer["run"])
    assert run["jobRun"]["name"] == "sulina-topic-statistics"
