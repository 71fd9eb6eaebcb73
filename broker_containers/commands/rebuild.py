"""``sulina cluster rebuild``: topics from what storage nodes and the object store hold."""

from __future__ import annotations

from typing import Any

import click

from broker_containers.commands.broker_options import check_quorum
from broker_containers.commands.tls_options import internal_tls_options
from broker_containers.rebuild.plan import CopiedLedger, OnGap
from broker_containers.rebuild.process import RebuildOutcome, RebuildSettings, run_rebuild
from storage_grpc.quorum.settings import QuorumSettings
from sulina.cli.command import JSON_ONLY, CliCommand
from sulina.cli.failures import ExitCode
from sulina.cli.output import plural, print_table, write_json
from sulina.cli.progress import Progress
from sulina.cli.running import run
from sulina.cli.settings import CliSettings
from sulina.metadata.etcd import EtcdSettings
from sulina.runtime.tls_files import TlsFiles

_COLUMNS = {
    "topic": "topic",
    "end": "next offset",
    "ledgers": "ledgers",
    "to_copy": "to copy",
    "missing": "missing",
    "outcome": "outcome",
}


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
@click.option("--etcd", metavar="URL", required=True, help="Where etcd is, empty or restored.")
@click.option(
    "--storage-node",
    "storage_nodes",
    metavar="NAME=HOST:PORT",
    multiple=True,
    required=True,
    help="A storage node; give one option for each that is left.",
)
@internal_tls_options
@click.option("--tier", metavar="URL", default="", help="The object store of tiered ledgers.")
@click.option("--write-quorum", type=click.IntRange(1), default=3, show_default=True)
@click.option("--ack-quorum", type=click.IntRange(1), default=2, show_default=True)
@click.option(
    "--on-gap",
    type=click.Choice(["stop", "older", "newer"]),
    default="stop",
    show_default=True,
    help="A topic with a part missing in between: leave it as it is, or keep what is before the "
    "first gap, or what is after the last.",
)
@click.option("--dry-run", is_flag=True, help="Look and plan; change nothing.")
@click.pass_obj
def rebuild(
    settings: CliSettings,
    etcd: str,
    storage_nodes: tuple[str, ...],
    etcd_tls: TlsFiles | None,
    storage_tls: TlsFiles | None,
    tier: str,
    write_quorum: int,
    ack_quorum: int,
    on_gap: str,
    dry_run: bool,
) -> None:
    """Find topics again after the metadata was lost, or restored from an older copy.

    Stop all brokers first. Reads which ledgers the storage nodes have, and which objects there
    are; gives each topic what belongs to it, in full copies; makes topics that the metadata does
    not know. Nothing is deleted, and a rebuild that was interrupted can be started again. Cursors
    are those of the restored copy: consumers get again what came after it.

    Exits with 1 if a topic has a part missing, or something can't be read.
    """
    check_quorum(write_quorum, ack_quorum)
    wanted = RebuildSettings(
        EtcdSettings.parse(etcd, tls=etcd_tls),
        storage_nodes,
        QuorumSettings(write_quorum=write_quorum, ack_quorum=ack_quorum),
        tier,
        OnGap(on_gap),
        dry_run,
        storage_tls,
    )
    with Progress(settings, "Looking", None) as bar:
        outcome = run(
            run_rebuild(wanted, lambda what, done, total: bar.show(done, what, total=total or None))
        )
    _show(settings, outcome, dry_run=dry_run)
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
        click.echo(f"damaged: {words}")
    for plan in outcome.plans:
        for words in plan.left_aside:
            click.echo(f"left aside, of {plan.topic}: {words}")
    if outcome.survey.nameless:
        count = plural(len(outcome.survey.nameless), "ledger")
        click.echo(f"{count} without a first entry: nobody listed them")


def _rows(outcome: RebuildOutcome, *, dry_run: bool) -> list[dict[str, Any]]:
    rebuilt = {done.topic for done in outcome.rebuilt}
    rows: list[dict[str, Any]] = []
    for plan in outcome.plans:
        if plan.topic in rebuilt:
            words = "rebuilt"
        elif plan.changed:
            words = "would be rebuilt" if dry_run else "nothing is left of it"
        else:
            words = "as it was" if not plan.gaps else "left as it was: see --on-gap"
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
