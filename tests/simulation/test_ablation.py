"""Without a safeguard the simulation finds a violation: here for those that take few seeds.

``python -m tests.simulation.ablation`` does it for all of them.
"""

from __future__ import annotations

import pytest

from tests.simulation.ablation import look_for, table
from tests.simulation.switches import CLUSTER_SAFEGUARDS, TIER_SAFEGUARDS, Switches, patched


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
    ],
)
def test_a_missing_safeguard_is_found_out(safeguard: str) -> None:
    finding = look_for(safeguard, most=80, jobs=1)
    assert finding.found is not None
    assert safeguard in table([finding])


@pytest.mark.parametrize(
    "safeguard",
    [
        "claim_by_lease",
        "removal_first",
        "check_owner",
        "paths_with_owners",
        "lease_ends_locally",
        "cache_stays_ahead",
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
    assert set(Switches.names()) > CLUSTER_SAFEGUARDS | TIER_SAFEGUARDS


@pytest.mark.parametrize("safeguard", Switches.names())
def test_what_a_missing_safeguard_replaces_exists(safeguard: str) -> None:
    with patched(Switches().without(safeguard)):
        pass
