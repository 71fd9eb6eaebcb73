"""Settings are validated on construction, and an error says what to change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker_containers.load.rules import PlacementRule
from broker_containers.load.settings import BalanceSettings, Full, Weights
from sulina.errors import Refused


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: BalanceSettings(high_stop=1.2), "thresholds must rise"),
        (lambda: BalanceSettings(low_start=0.9), "thresholds must rise"),
        (lambda: Weights(cpu=-1), "0 or more"),
        (lambda: Weights(**dict.fromkeys(Weights().shares(), 0.0)), "at least one"),
        (lambda: Full(topics=0), "above 0"),
        (lambda: BalanceSettings(moves_per_interval=0), "set enabled to false"),
        (lambda: BalanceSettings(load_per_interval=1.5), "at most 1"),
        (lambda: BalanceSettings(stale_seconds=1), "more than fresh_seconds"),
        (lambda: BalanceSettings(confirm_seconds=-1), "negative"),
        (lambda: BalanceSettings(confirm_seconds=float("nan")), "negative"),
        (lambda: BalanceSettings(smoothing_seconds=0), "more than 0"),
        (lambda: PlacementRule.from_dict({"pattern": "payments"}), "start with '/'"),
        (lambda: PlacementRule.from_dict({"pattern": "/p/*"}), "says nothing"),
        (lambda: PlacementRule("/p/*", require=("a",), avoid=("a",)), "requires and avoids"),
        (lambda: PlacementRule.from_dict({"labels": ["a"]}), "not a rule"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_remedy(
    make: Callable[[], object], complaint: str
) -> None:
    with pytest.raises(Refused, match=complaint):
        make()


def test_only_the_proportions_of_weights_matter() -> None:
    tenfold = {name: 10 * share for name, share in Weights().shares().items()}
    assert Weights(**tenfold).shares() == pytest.approx(Weights().shares())
    assert sum(Weights().shares().values()) == pytest.approx(1)
