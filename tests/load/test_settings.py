"""Settings are checked when they are made, and say what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker_containers.load.rules import PlacementRule
from broker_containers.load.settings import BalanceSettings, RankingName, Weights
from sulina.errors import Refused


def test_settings_survive_the_way_to_json_and_back() -> None:
    settings = BalanceSettings(
        ranking=RankingName.COMPOSITE,
        weights=Weights(cpu=3),
        rules=(PlacementRule("/a/*", require=("zone=a",), apart=True, strict=False),),
        blacklist_topics=("/x/*",),
        moves_per_interval=5,
    )
    assert BalanceSettings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings
    assert BalanceSettings.from_dict({}) == BalanceSettings()


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"high_stop": 1.2}, "levels must rise"),
        ({"low_start": 0.9}, "levels must rise"),
        ({"hi_start": 1.2}, "no setting hi_start"),
        ({"weights": {"gpu": 1}}, "no setting gpu"),
        ({"weights": {"cpu": -1}}, "from 0 up"),
        ({"weights": dict.fromkeys(Weights().shares(), 0)}, "at least one"),
        ({"weights": 5}, "not a set"),
        ({"full": {"topics": 0}}, "above 0"),
        ({"ranking": "best"}, "not a ranking; there are simple, composite, weighted"),
        ({"enabled": "yes"}, "true or false"),
        ({"moves_per_interval": 0}, "set enabled to false"),
        ({"moves_per_interval": 1.5}, "whole number"),
        ({"load_per_interval": 1.5}, "at most 1"),
        ({"stale_seconds": 1}, "more than fresh_seconds"),
        ({"confirm_seconds": -1}, "negative"),
        ({"confirm_seconds": float("nan")}, "is a number"),
        ({"smoothing_seconds": 0}, "more than 0"),
        ({"rules": [{"pattern": "payments"}]}, "start with '/'"),
        ({"rules": [{"pattern": "/p/*"}]}, "says nothing"),
        ({"rules": [{"pattern": "/p/*", "require": ["a"], "avoid": ["a"]}]}, "requires and avoids"),
        ({"rules": [{"labels": ["a"]}]}, "not a rule"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_remedy(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(Refused, match=complaint):
        BalanceSettings.from_dict(values)


def test_only_the_proportions_of_weights_matter() -> None:
    tenfold = {name: 10 * share for name, share in Weights().shares().items()}
    assert Weights(**tenfold).shares() == pytest.approx(Weights().shares())
    assert sum(Weights().shares().values()) == pytest.approx(1)
