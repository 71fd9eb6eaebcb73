"""What a bucket keeps of deleted objects: asked of an emulated S3 that has versions."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import boto3
import pytest

from localstack.emulators.server import EmulatorServer
from sulina.errors import Refused
from sulina.objects.keeping import Keeping, KeepsDeleted
from sulina.objects.opening import open_store
from sulina.objects.s3_keeping import kept_by
from sulina.runtime.real_clock import RealClock

DAY = 86_400_000_000


def rule(days: int, prefix: str = "", **more: object) -> dict[str, Any]:
    return {
        "ID": f"{days}",
        "Status": "Enabled",
        "Filter": {"Prefix": prefix},
        "NoncurrentVersionExpiration": {"NoncurrentDays": days, **more},
    }


def test_a_bucket_says_for_how_long_it_keeps_versions(
    moto: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**moto.variables, "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="keeping")

    async def asked() -> Keeping:
        async with open_store("s3://keeping/prod", RealClock(), random.Random(1)) as store:
            assert isinstance(store, KeepsDeleted)
            return await store.keeping()

    assert asyncio.run(asked()) == Keeping()
    s3.put_bucket_versioning(Bucket="keeping", VersioningConfiguration={"Status": "Enabled"})
    for_good = asyncio.run(asked())
    assert for_good.days is None and "for good: give it a lifecycle rule" in for_good.text
    s3.put_bucket_lifecycle_configuration(
        Bucket="keeping", LifecycleConfiguration={"Rules": [rule(14), rule(3, "other/")]}
    )
    assert asyncio.run(asked()) == Keeping(
        "the bucket keeping keeps versions of deleted objects for 14 days", 14
    )


async def of(answers: Mapping[str, Any]) -> Keeping:
    async def ask(method: str) -> Mapping[str, Any]:
        if method not in answers:
            raise Refused("denied")
        return answers[method]  # type: ignore[no-any-return]

    return await kept_by(ask, "lake", "prod/")


async def test_rules_for_other_objects_and_replicas_do_not_count() -> None:
    rules = [
        rule(1, "prod/ledgers/"),
        {**rule(2), "Status": "Disabled"},
        {**rule(3), "Filter": {"And": {"Prefix": "", "Tags": []}}},
        rule(4, NewerNoncurrentVersions=1),
    ]
    answers: dict[str, Any] = {
        "get_bucket_versioning": {"Status": "Suspended"},
        "get_bucket_lifecycle_configuration": {"Rules": rules},
        "get_bucket_replication": {},
    }
    assert (await of(answers)).days is None
    rules.append(rule(5, "prod/"))
    assert (await of(answers)).days == 5
    to = {"Status": "Enabled", "Destination": {"Bucket": "arn:aws:s3:::far"}}
    answers["get_bucket_replication"] = {"ReplicationConfiguration": {"Rules": [to]}}
    replicated = await of(answers)
    assert replicated.days is None and "replicates it to far" in replicated.text


async def test_a_bucket_that_may_not_be_asked_is_not_said_to_keep_nothing() -> None:
    unknown = await of({})
    assert unknown.days is None and unknown.gone_us(DAY) == 0
    assert "s3:GetBucketVersioning" in unknown.text and "get-bucket-versioning" in unknown.text


def test_versions_go_at_the_midnight_after_their_days() -> None:
    assert Keeping().gone_us(5) == 5
    assert Keeping("kept", 2).gone_us(DAY + 5) == 4 * DAY
