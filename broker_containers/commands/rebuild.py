"""``sulina cluster rebuild``: recreate topics from storage nodes and the object store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from broker_containers.commands.broker_options import (
    InternalTlsOptions,
    ack_quorum_option,
    check_quorum,
    write_quorum_option,
)
from broker_containers.rebuild.plan import CopiedLedger, OnGap
from broker_containers.rebuild.process import RebuildOutcome, RebuildSettings, run_rebuild
from storage_grpc.quorum.settings import QuorumSettings
from sulina.cli.command import JSON_ONLY, CliCommand
from sulina.cli.failures import ExitCode
from sulina.cli.options import group, option, options
from sulina.cli.output import columns, echo, plural, print_table, write_json
from sulina.cli.params import MemberOf
from sulina.cli.progress import Progress
from sulina.cli.running import run
from sulina.cli.settings import CliSettings
from sulina.metadata.etcd import EtcdSettings

_COLUMNS = columns("topic", end="next offset") | columns("ledgers", "to_copy", "missing", "outcome")


@dataclass(frozen=True, slots=True)
class RebuildOptions:
    """The options, in the order in which the help shows them."""

    etcd: str = option(
        None, "URL of etcd, empty or restored from a backup.", metavar="URL", required=True
    )
    storage_nodes: tuple[str, ...] = option(
        None,
        "A storage node; repeat the option for each remaining node.",
        flag="--storage-node",
        metavar="NAME=HOST:PORT",
        multiple=True,
        required=True,
    )
    tls: InternalTlsOptions = group(InternalTlsOptions)
    tier: str = option("", "Object store of tiered ledgers.", metavar="URL")
    write_quorum: int = write_quorum_option()
    ack_quorum: int = ack_quorum_option()
    on_gap: OnGap = option(
        "stop",
        "What to do with a topic that has a gap: leave it unchanged, keep the messages before the "
        "first gap, or keep those after the last gap.",
        type=MemberOf(OnGap),
    )
    dry_run: bool = option(False, "Show what would be done, without changing anything.")


@click.command(
    "rebuild",
    cls=CliCommand,
    common=JSON_ONLY,
    examples=[
        "sulina cluster rebuild --etcd http://10.0.0.1:2379 --storage-node a=10.0.1.1:6660 "
        "--storage-node b=10.0.1.2:6660 --storage-node c=10.0.1.3:6660 "
        "--tier s3://lake/prod --dry-run",
    ],
)
@options(RebuildOptions)
def rebuild(settings: CliSettings, options: RebuildOptions) -> None:
    """Rebuild topics after the metadata was lost, or restored from a backup.

    Stop all brokers first. The command finds the ledgers on storage nodes and the objects in the
    object store, gives them back to their topics with the full number of copies, and creates
    topics that the metadata lacks. It deletes nothing, and can be run again after an interruption.
    Cursors are those of the backup: consumers receive later messages again.

    Exits with 1 if a topic has a gap, or something can't be read.
    """
    check_quorum(options.write_quorum, options.ack_quorum)
    wanted = RebuildSettings(
        EtcdSettings.parse(options.etcd, tls=options.tls.etcd),
        options.storage_nodes,
        QuorumSettings(write_quorum=options.write_quorum, ack_quorum=options.ack_quorum),
        options.tier,
        options.on_gap,
        options.dry_run,
        options.tls.storage,
    )
    with Progress(settings, "rebuilding", None) as bar:
        outcome = run(
            run_rebuild(wanted, lambda what, done, total: bar.show(done, what, total=total or None))
        )
    _show(settings, outcome, dry_run=options.dry_run)
    if outcome.survey.damaged or any(plan.gaps for plan in outcome.plans):
        click.get_current_context().exit(ExitCode.FAILED)


def _show(settings: CliSettings, outcome: RebuildOutcome, *, dry_run: bool) -> None:
    rows = _rows(outcome, dry_run=dry_run)
    if settings.json:
        found = outcome.survey
        write_json(
            {
                "topics": rows,
                "damaged": found.damaged,
                "ledgers_without_topic": found.nameless,
                "left_aside": [words for plan in outcome.plans for words in plan.left_aside],
            }
        )
        return
    print_table(rows, _COLUMNS)
    for words in outcome.survey.damaged:
        echo(f"damaged: {words}")
    for plan in outcome.plans:
        for words in plan.left_aside:
            echo(f"not used, of {plan.topic}: {words}")
    if outcome.survey.nameless:
        count = plural(len(outcome.survey.nameless), "ledger")
        echo(f"{count} without a first entry: not assigned to a topic")


def _rows(outcome: RebuildOutcome, *, dry_run: bool) -> list[dict[str, Any]]:
    rebuilt = {done.topic for done in outcome.rebuilt}
    rows: list[dict[str, Any]] = []
    for plan in outcome.plans:
        if plan.topic in rebuilt:
            words = "rebuilt"
        elif plan.changed:
            words = "would be rebuilt" if dry_run else "no data left"
        else:
            words = "unchanged" if not plan.gaps else "unchanged because of gaps: see --on-gap"
        rows.append(
            {
                "topic": str(plan.topic),
                "end": plan.end,
                "ledgers": len(plan.pieces),
                "to_copy": sum(isinstance(piece, CopiedLedger) for piece in plan.pieces),
                "missing": [f"{start} to {end - 1}" for start, end in plan.gaps],
                "outcome": words,
            }
        )
    return rows
