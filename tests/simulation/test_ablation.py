"""With a safeguard off the simulation finds a violation: some that it finds soon, every time."""

from __future__ import annotations

import pytest

from tests.simulation.ablation import look_for, table
from tests.simulation.switches import CLUSTER_SAFEGUARDS, TIER_SAFEGUARDS, Switches


@pytest.mark.parametrize(
    "safeguard",
    [
        "ack_quorum",
        "confirm_in_order",
        "swap_on_change",
        "recover_on_takeover",
        "swap_ledger_list",
        "raise_epoch",
        "recover_dedup",
        "guard_cursors",
        "linearizable_reads",
        "sync_before_ack",
    ],
)
def test_a_missing_safeguard_is_found_out(safeguard: str) -> None:
    _find(safeguard)


@pytest.mark.parametrize(
    ("safeguard", "first"), [("show_only_confirmed", 48), ("drop_failed_from_confirmed", 24)]
)
def test_one_that_shows_in_few_seeds_is_looked_for_near_them(safeguard: str, first: int) -> None:
    _find(safeguard, first)


def _find(safeguard: str, first: int = 0) -> None:
    finding = look_for(safeguard, most=80, jobs=1, first=first)
    assert finding.found is not None
    assert safeguard in table([finding])


@pytest.mark.parametrize(
    "safeguard",
    [
        "swap_owners",
        "claim_by_lease",
        "removal_first",
        "check_owner",
        "paths_with_owners",
        "lease_ends_locally",
        "mirror_stays_ahead",
    ],
)
def test_a_missing_safeguard_of_the_cluster_is_found_out(safeguard: str) -> None:
    assert safeguard in CLUSTER_SAFEGUARDS
    finding = look_for(safeguard, most=60, jobs=1)
    assert finding.found is not None


@pytest.mark.parametrize("safeguard", ["swap_before_delete", "verify_objects"])
def test_a_missing_safeguard_of_the_cold_tier_is_found_out(safeguard: str) -> None:
    assert safeguard in TIER_SAFEGUARDS
    finding = look_for(safeguard, most=16, jobs=1)
    assert finding.found is not None


def test_every_safeguard_of_the_cluster_is_a_switch() -> None:
    assert set(Switches().names()) > CLUSTER_SAFEGUARDS


def test_there_are_at_least_twenty_safeguards() -> None:
    assert len(Switches().names()) >= 20
