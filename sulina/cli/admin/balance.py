"""``sulina balance``: how evenly brokers are loaded, and moving topics to even it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from sulina.cli.command import CliGroup
from sulina.cli.output import (
    columns,
    echo,
    moment,
    plural,
    print_fields,
    print_table,
    shown_as_json,
)
from sulina.cli.running import ask
from sulina.cli.settings import CliSettings
from sulina.operations.json_types import plain

if TYPE_CHECKING:
    from sulina.operations.cluster import BalancePlan, PastMoves, PastRounds

_BROKERS: Final = columns("broker", "load", "topics", "state", "trust")
_MOVES: Final = columns("topic", source="from", target="to", cost="load", why="why")
_FEW: Final = 3
"""Names of topics that are shown; --json has more."""
_PAST_MOVES: Final = columns("when", "why", source="from", target="to", cost="load", names="topics")
_PAST_ROUNDS: Final = columns("since", "until", "rounds", "moved", reasons="reasons not to move")
_BALANCE: Final = {"when": "load"} | columns(
    "mean", "highest", "lowest", "cv", max_over_mean="max/mean", max_over_bound="max/bound"
)


@click.group(cls=CliGroup)
def balance() -> None:
    """Show how evenly brokers are loaded, and move topics to even it out.

    The cluster's leader rebalances by itself; these commands show its view and trigger a round.
    """


@balance.command("show", examples=["sulina balance show", "sulina balance show --json"])
def show(settings: CliSettings) -> None:
    """Show the load of each broker, past moves, and the reasons for not moving topics."""
    found = ask(settings, lambda admin: admin.balance.show())
    if shown_as_json(settings, found):
        return
    fields: dict[str, Any] = {"leader": found.leader, "load": plain(found.balance)}
    for name, title in (("moves", "moved so far"), ("reasons", "reasons not to move")):
        if getattr(found, name):
            fields[title] = getattr(found, name)
    print_fields(fields)
    print_table(found.brokers, _BROKERS)


@balance.command(
    "history", examples=["sulina balance history", "sulina balance history --limit 300 --json"]
)
@click.option("--limit", type=click.IntRange(1, 300), default=20, help="The newest of each.")
def history(settings: CliSettings, limit: int) -> None:
    """Show what was moved when and why, and why other topics were not."""
    found = ask(settings, lambda admin: admin.balance.history(limit=limit))
    if shown_as_json(settings, found):
        return
    print_table([_past_moves(each) for each in found.moves], _PAST_MOVES)
    print_table([_past_rounds(each) for each in found.rounds], _PAST_ROUNDS)


def _past_moves(moves: PastMoves) -> dict[str, Any]:
    shown = moves.names[:_FEW]
    more = moves.topics - len(shown)
    names = ", ".join(shown) + (f" and {more:,} more" if more else "")
    return {**plain(moves), "when": moment(moves.at_us), "names": names, "cost": moves.cost or None}


def _past_rounds(rounds: PastRounds) -> dict[str, Any]:
    reasons = ", ".join(f"{name}: {count:,}" for name, count in rounds.reasons.items())
    return {
        **plain(rounds),
        "since": moment(rounds.since_us),
        "until": moment(rounds.until_us),
        "reasons": reasons,
    }


@balance.command("plan", examples=["sulina balance plan"])
def plan(settings: CliSettings) -> None:
    """Show which topics would move now, without moving them."""
    _show_plan(settings, ask(settings, lambda admin: admin.balance.plan()), "would move")


@balance.command("rebalance", examples=["sulina balance rebalance"])
def rebalance(settings: CliSettings) -> None:
    """Move topics now, where the gain is worth the move."""
    _show_plan(settings, ask(settings, lambda admin: admin.balance.rebalance()), "will move")


def _show_plan(settings: CliSettings, found: BalancePlan, doing: str) -> None:
    if shown_as_json(settings, found):
        return
    moves = found.moves
    if moves:
        share = f"{found.moved_share:.1%} of the load"
        echo(f"{plural(len(moves), 'topic')} {doing}, {share}")
        print_table(moves, _MOVES)
    else:
        echo("no move is worthwhile")
    states = [
        {"when": "before", **plain(found.before)},
        {"when": "after", **plain(found.after)},
    ]
    print_table(states, _BALANCE)
    if found.reasons:
        print_fields({"reasons not to move": found.reasons})
