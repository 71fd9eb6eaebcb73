"""Every input that is kept, and a few random ones, through the fuzzing targets, without atheris."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.fuzz.__main__ import CORPUS, main, replay
from tests.fuzz.target import altered, calls, mutated
from tests.fuzz.targets import TARGETS

_RANDOM_INPUTS = 60
_KEPT = sorted(path for path in CORPUS.glob("*/*") if path.is_file())


@pytest.mark.parametrize("path", _KEPT, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_input_that_once_failed_passes(path: Path) -> None:
    replay(path)


@pytest.mark.parametrize("name", TARGETS)
def test_input_of_real_encoders_passes(name: str) -> None:
    target = TARGETS[name]
    session = target.open()
    for seed in target.seeds():
        session.feed(seed)
    session.close()


@pytest.mark.parametrize("name", TARGETS)
def test_altered_input_raises_documented_errors_only(name: str) -> None:
    target, chance = TARGETS[name], Random(7)
    seeds = target.seeds()
    session = target.open()
    for _ in range(_RANDOM_INPUTS):
        data = chance.choice(seeds)
        if target.messages:
            data = altered(target, data, chance, lambda part: mutated(part, chance, seeds))
        else:
            data = mutated(data, chance, seeds)
        session.feed(data)
    session.close()


def test_joined_inputs_are_the_calls_of_all() -> None:
    target = TARGETS["danube"]
    first, second = target.seeds()[:2]
    count = len(target.messages)
    assert list(calls(first + second, count)) == [*calls(first, count), *calls(second, count)]


def test_the_command_lists_its_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(TARGETS)


def test_an_unknown_target_is_refused_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "choose from frame" in capsys.readouterr().err
