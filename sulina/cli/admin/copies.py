"""``sulina topic copy`` and ``restore``: copies of topics, from brokers or from objects alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import click

from sulina.cli.command import CliCommand
from sulina.cli.options import option, options
from sulina.cli.output import echo, plural, write_json
from sulina.cli.params import FROM, START_METAVAR, compression_option, moment, position, topic_name
from sulina.cli.progress import Progress
from sulina.cli.running import connected, run
from sulina.cli.settings import CliSettings
from sulina.errors import NotFound, Refused
from sulina.model import Start
from sulina.names import TopicName
from sulina.operations.json_types import plain

if TYPE_CHECKING:
    from sulina import Client
    from sulina.copies.copying import KeepsSchema, PartitionCopy
    from sulina.copies.sources import CopySource


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """What to copy, in the order in which the help shows it."""

    start: Start | None = option(None, "Where to start. [default: earliest]", **FROM)
    until: Start | None = option(
        None,
        "Copy what comes before this offset or time. [default: what is there now]",
        type=position,
        metavar=START_METAVAR,
    )
    to_url: str = option("", "URL of the target's cluster. [default: the same]", metavar="URL")
    to_token: str = option("", "Token for that cluster.", metavar="TOKEN")
    producer_name: str = option(
        "",
        "Publish under this name. One name for each source. [default: from the source]",
        metavar="NAME",
    )
    compression: str = compression_option()


@click.command(
    "copy",
    cls=CliCommand,
    examples=[
        "sulina topic copy /default/orders /default/orders-copy",
        "sulina topic copy /default/orders /default/may --from 2026-05-01T00:00:00Z "
        "--until 2026-06-01T00:00:00Z",
        "sulina topic copy /default/orders /default/orders --to-url sulina://other.example:6655",
    ],
)
@click.argument("source", type=topic_name)
@click.argument("target", type=topic_name)
@options(CopyOptions)
def copy(settings: CliSettings, source: str, target: str, options: CopyOptions) -> None:
    """Copy the messages of SOURCE to TARGET, exactly once.

    TARGET is created if it does not exist. Keys, attributes, publish times and order stay; each
    message has its offset in SOURCE as its sequence number. Run the same command again after an
    interruption, or later: it copies only what is missing.
    """
    if source == target and not options.to_url:
        raise click.UsageError("SOURCE and TARGET are the same topic: name another target")
    run(_copy(settings, source, target, options))


async def _copy(settings: CliSettings, source: str, target: str, options: CopyOptions) -> None:
    from sulina.copies.sources import TopicSource

    start = options.start or Start.earliest()
    async with connected(settings) as client:
        info = await client.topic(source)
        sources = [
            await TopicSource.open(client, name, start, options.until) for name, _ in info.parts
        ]
        if not options.to_url:

            async def keeps(schema_id: int, version: int) -> bool:
                return True

            await _publish(settings, sources, client, target, keeps, options)
            return
        there = replace(settings, url=options.to_url, token=options.to_token)
        async with connected(there) as other:

            async def same(schema_id: int, version: int) -> bool:
                found = [await _definition(each, schema_id, version) for each in (client, other)]
                return found[0] is not None and found[0] == found[1]

            await _publish(settings, sources, other, target, same, options)


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """What to restore, in the order in which the help shows it."""

    at: datetime | None = option(
        None,
        "Restore messages published before this time, such as 2026-05-01T12:30:00Z. [default: all]",
        type=moment,
        metavar="TIME",
    )
    lake: str = option(
        "",
        "What --tier of the brokers was: s3://bucket/prefix, file:///folder and others.",
        metavar="URL",
        envvar="SULINA_TIER",
        show_envvar=True,
    )
    allow_gaps: bool = option(False, "Restore what there is if objects are missing.")
    producer_name: str = option(
        "", "Publish under this name. [default: from the source]", metavar="NAME"
    )
    compression: str = compression_option()


@click.command(
    "restore",
    cls=CliCommand,
    examples=[
        "sulina topic restore /default/orders /default/orders-restored --lake s3://lake/prod",
        "sulina topic restore /default/orders /default/before --at 2026-05-01T12:30:00Z "
        "--lake file:///var/lib/sulina/objects",
    ],
)
@click.argument("source", type=topic_name)
@click.argument("target", type=topic_name)
@options(RestoreOptions)
def restore(settings: CliSettings, source: str, target: str, options: RestoreOptions) -> None:
    """Restore the messages of SOURCE into TARGET, from the objects of the cold tier alone.

    SOURCE need not exist any more, nor its cluster: the objects are read directly. Messages that
    had not become objects yet, and those that retention, compaction or erasure has removed, are
    not restored. Otherwise it works like `sulina topic copy`, and can be run again.
    """
    if not options.lake:
        raise click.UsageError("give --lake, or set SULINA_TIER")
    run(_restore(settings, source, target, options))


async def _restore(
    settings: CliSettings, source: str, target: str, options: RestoreOptions
) -> None:
    from sulina.copies.objects import open_history
    from sulina.objects.opening import open_store
    from sulina.runtime.real_clock import RealClock
    from sulina.runtime.real_random import real_random

    before_us = None if options.at is None else round(options.at.timestamp() * 1_000_000)
    async with (
        open_store(options.lake, RealClock(), real_random()) as store,
        connected(settings) as client,
    ):
        sources = await open_history(
            store, TopicName.parse(source), before_us, allow_gaps=options.allow_gaps
        )

        async def known(schema_id: int, version: int) -> bool:
            return await _definition(client, schema_id, version) is not None

        await _publish(settings, sources, client, target, known, options)


async def _definition(client: Client, schema_id: int, version: int) -> bytes | None:
    try:
        return (await client.admin.schemas.lookup(schema_id, version=version)).definition
    except (NotFound, Refused):
        return None


async def _publish(
    settings: CliSettings,
    sources: Sequence[CopySource],
    target: Client,
    topic: str,
    keeps_schema: KeepsSchema,
    options: CopyOptions | RestoreOptions,
) -> None:
    from sulina.copies.copying import copy_partitions

    with Progress(settings, f"copying to {topic}", None) as bar:
        copies = await copy_partitions(
            sources,
            target,
            topic,
            name=options.producer_name,
            compression=options.compression,
            keeps_schema=keeps_schema,
            progress=lambda done, total: bar.show(
                done, f"{done:,} of {total:,} offsets", total=total
            ),
        )
    _show(settings, copies)


def _show(settings: CliSettings, copies: Sequence[PartitionCopy]) -> None:
    if settings.json:
        write_json([plain(each) for each in copies])
        return
    for each in copies:
        asked = each.end_offset - each.first_offset
        words = f"copied {plural(each.records, 'message')} of {each.source} to {each.target}"
        span = (
            f"offsets {each.first_offset:,} to {each.end_offset - 1:,}" if asked else "no offsets"
        )
        echo(f"{words}: {span}")
