"""The evaluator of policies itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.infra.policy import IamPolicy, matches


def policy(*statements: dict[str, Any]) -> IamPolicy:
    return IamPolicy.of(json.dumps({"Version": "2012-10-17", "Statement": list(statements)}))


READ = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::lake/ledgers/*"}


def test_what_nobody_allowed_is_refused() -> None:
    found = policy(READ)
    assert found.allows("s3:GetObject", "arn:aws:s3:::lake/ledgers/1.parquet")
    assert not found.allows("s3:GetObject", "arn:aws:s3:::lake/tables/1.parquet")
    assert not found.allows("s3:PutObject", "arn:aws:s3:::lake/ledgers/1.parquet")


def test_a_deny_wins_over_every_allow() -> None:
    found = policy(READ, {**READ, "Effect": "Deny", "Action": "s3:*"})
    assert not found.allows("s3:GetObject", "arn:aws:s3:::lake/ledgers/1.parquet")


def test_a_condition_without_its_fact_does_not_hold() -> None:
    found = policy({**READ, "Condition": {"StringEquals": {"aws:SourceAccount": "1"}}})
    where = "arn:aws:s3:::lake/ledgers/1.parquet"
    assert not found.allows("s3:GetObject", where)
    assert not found.allows("s3:GetObject", where, {"aws:SourceAccount": "2"})
    assert found.allows("s3:GetObject", where, {"aws:SourceAccount": "1"})


def test_all_keys_of_a_condition_must_hold_and_any_value_of_a_key() -> None:
    wanted = {"StringLike": {"s3:prefix": ["ledgers/*", "tables/*"], "aws:Region": "eu-*"}}
    found = policy({**READ, "Condition": wanted})
    where = "arn:aws:s3:::lake/ledgers/1.parquet"
    facts = {"s3:prefix": "tables/x", "aws:Region": "eu-central-1"}
    assert found.allows("s3:GetObject", where, facts)
    assert not found.allows("s3:GetObject", where, {**facts, "s3:prefix": "jobs/"})
    assert not found.allows("s3:GetObject", where, {"s3:prefix": "tables/x"})


def test_a_trust_policy_speaks_of_its_principal_alone() -> None:
    found = policy(
        {
            "Effect": "Allow",
            "Principal": {"Service": "ec2.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    )
    assert found.allows("sts:AssumeRole", "", principal=("Service", "ec2.amazonaws.com"))
    assert not found.allows("sts:AssumeRole", "", principal=("Service", "lambda.amazonaws.com"))


def test_what_the_evaluator_does_not_know_is_an_error_and_never_a_yes() -> None:
    with pytest.raises(ValueError, match="NotAction"):
        policy({"Effect": "Allow", "NotAction": "s3:*", "Action": "x", "Resource": "*"})
    strange = policy({**READ, "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}})
    with pytest.raises(ValueError, match="IpAddress"):
        strange.allows("s3:GetObject", "arn:aws:s3:::lake/ledgers/1", {"aws:SourceIp": "10.0.0.1"})


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("arn:*:lake", "arn:aws:s3:::lake", True),
        ("a?c", "abc", True),
        ("a.c", "abc", False),
        ("abc", "abcd", False),
    ],
)
def test_stars_and_question_marks_are_the_only_wild_cards(
    pattern: str, text: str, fits: bool
) -> None:
    assert matches(pattern, text) is fits
