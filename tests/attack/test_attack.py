"""The attacks run against a real broker, and notice when it does not hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack import run
from tests.attack.attack import ATTACKS, Attack, AttackSucceeded, Target, must
from tests.attack.command import main
from tests.attack.run import run_attack, single_broker


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with single_broker(tmp_path_factory.mktemp("attack")) as running:
        yield running


# How long a bystander waits depends on the load of the machine, so these tests only look at what
# the attack itself found: whether honest clients were served.
@pytest.mark.parametrize(
    "name", ["http-kept-alive", "health-watchers", "binary-large-hello", "foreign-broker-url"]
)
async def test_the_broker_holds(target: Target, name: str) -> None:
    await ATTACKS[name].run(target)
    target.close_all()


async def test_what_a_bystander_sees_is_measured(target: Target) -> None:
    result = await run_attack(ATTACKS["grpc-garbage"], target)
    assert result.stall_ms > 0 and result.growth_mib < 64, result


async def test_an_attack_that_succeeds_is_reported(target: Target) -> None:
    async def succeed(_: Target) -> None:
        must(False, "everything is lost")

    result = await run_attack(Attack("bad", "nothing", "", succeed), target)
    assert not result.held and "everything is lost" in result.detail
    with pytest.raises(AttackSucceeded):
        await succeed(target)


async def test_what_an_attack_leaves_behind_is_reported(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leave(target: Target) -> None:
        async with target.connect() as client:
            await client.admin.topics.create("/default/left")

    monkeypatch.setattr(run, "_SETTLE_SECONDS", 0.0)
    result = await run_attack(Attack("bad", "nothing", "", leave), target)
    assert "there were more: 1 topics" in result.detail
    allowed = Attack("good", "a token", "", leave, frozenset(("topics",)))
    async with target.connect() as client:
        await client.admin.topics.delete("/default/left")
    assert "topics" not in (await run_attack(allowed, target)).detail


def test_attacks_are_listed_and_unknown_ones_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert "http-kept-alive" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--only", "no-such-attack"])
    assert "unknown attack: no-such-attack; --list shows all" in capsys.readouterr().err


def test_one_attack_can_be_run_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--only", "many-partitions", "--json"])
    assert '"name": "many-partitions"' in capsys.readouterr().out
