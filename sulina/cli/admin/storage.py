"""``sulina cluster storage`` and ``log-level``: storage nodes, as brokers see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from sulina.cli.command import CliCommand
from sulina.cli.output import columns, print_fields, print_table, say, shown_as_json, size
from sulina.cli.running import ask, connected, run
from sulina.cli.settings import CliSettings
from sulina.operations.json_types import plain

if TYPE_CHECKING:
    from sulina.operations.storage import (
        LedgerInDoubt,
        LedgersChecked,
        StorageDetails,
        StorageNodeRow,
    )

_NODE_COLUMNS: Final = columns(
    "node", "state", "disk", "journal", "ledgers", "log", "address", "zone", "version"
)
_LEDGER_COLUMNS: Final = columns("ledger", "phase", "copies", "nodes")


@click.command(
    "storage",
    cls=CliCommand,
    examples=["sulina cluster storage", "sulina cluster storage --json"],
)
def cluster_storage(settings: CliSettings) -> None:
    """Show storage nodes with their disks, and all ledgers that are in doubt."""
    found, seen = run(_look(settings))
    doubts = seen.in_doubt
    shown = {"in_doubt": [plain(each) for each in doubts], "away": seen.away}
    if shown_as_json(settings, {**plain(found), **shown}):
        return
    disk = {} if found.disk_bytes is None else {"disk": _used(found)}
    stored = "in the broker's own journal" if found.embedded else "on storage nodes"
    copies = f"{found.write_quorum}, of which {found.ack_quorum} are durable when it is confirmed"
    print_fields({"messages": stored, "copies": copies, **disk})
    if found.nodes:
        print_table([_node(row) for row in found.nodes], _NODE_COLUMNS)
        away = {"with copies on nodes that do not serve": seen.away} if seen.away else {}
        unknown = {"ledgers": f"unknown: {found.trouble}"}
        looked = {"ledgers looked at": seen.ledgers_checked, "in doubt": len(doubts), **away}
        print_fields(unknown if found.trouble else looked)
    if doubts:
        print_table([_ledger(each) for each in doubts], _LEDGER_COLUMNS)


async def _look(settings: CliSettings) -> tuple[StorageDetails, LedgersChecked]:
    """All ledgers are looked at, 5,000 at a time."""
    from sulina.operations.storage import LedgersChecked

    async with connected(settings) as client:
        found = await client.admin.storage.show()
        checked, doubts, after = found.ledgers_checked, found.in_doubt, found.next_ledger
        away = found.away
        while after is not None:
            page = await client.admin.storage.ledgers(after=after)
            checked += page.ledgers_checked
            doubts += page.in_doubt
            away += page.away
            after = page.next_ledger
        return found, LedgersChecked(checked, doubts, None, away)


def _used(found: StorageDetails) -> str:
    free, total = found.disk_free_bytes or 0, found.disk_bytes or 0
    return f"{size(total - free)} of {size(total)} used"


def _node(row: StorageNodeRow) -> dict[str, Any]:
    state = row.state
    shown = {
        "node": row.node,
        "state": "healthy" if row.healthy and not row.trouble else row.trouble,
        "address": row.address,
        "zone": row.zone,
    }
    if state is None:
        return shown
    return {
        **shown,
        "disk": f"{size(state.disk_free_bytes)} of {size(state.disk_bytes)} free",
        "journal": size(state.journal_bytes),
        "ledgers": state.ledgers,
        "log": state.log_level,
        "version": state.version,
    }


def _ledger(each: LedgerInDoubt) -> dict[str, Any]:
    return {
        "ledger": each.ledger,
        "phase": each.phase,
        "copies": "fewer than it should have" if each.under_replicated else "all",
        "nodes": ", ".join(each.nodes),
    }


@click.command(
    "log-level",
    cls=CliCommand,
    examples=[
        "sulina cluster log-level storage-1 debug",
        "sulina cluster log-level storage-1 default",
    ],
)
@click.argument("node")
@click.argument("level", type=click.Choice(["debug", "info", "warning", "error", "default"]))
def cluster_log_level(settings: CliSettings, node: str, level: str) -> None:
    """Change what a storage node logs, until it restarts; `default` is what it started with.

    For brokers: `sulina config set log.level debug`.
    """
    wanted = "" if level == "default" else level
    done = ask(settings, lambda admin: admin.storage.log_level(node, level=wanted))
    say(settings, f"{node} logs at the level {done.level}", done)
