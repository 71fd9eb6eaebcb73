"""``sulina bench``: how fast is the broker that is running, measured through the real client."""

from __future__ import annotations

import uuid
from dataclasses import asdict

import click

from sulina.cli.bench.conductor import BenchPlan, BenchResult, conduct
from sulina.cli.command import CliCommand
from sulina.cli.output import print_fields, write_json
from sulina.cli.params import COMPRESSION, topic_name
from sulina.cli.running import run
from sulina.cli.settings import CliSettings

_DEFAULT_SECONDS = 5.0


@click.command(
    cls=CliCommand,
    examples=[
        "sulina bench",
        "sulina bench --size 1024 --rate 5000 --seconds 10",
        "sulina bench --producers 2 --consumers 2 --count 1000000 --json",
    ],
)
@click.option(
    "--topic", type=topic_name, help="A topic that doesn't exist yet. [default: /default/bench-...]"
)
@click.option(
    "--size",
    type=click.IntRange(16, 8 << 20),
    default=100,
    show_default=True,
    help="Bytes a message.",
)
@click.option("--count", type=click.IntRange(min=1), help="Publish so many messages in all.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    help="Publish for so long. [default: 5]",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    help="So many messages a second in all. [default: as fast as it goes]",
)
@click.option("--producers", type=click.IntRange(1, 64), default=1, show_default=True)
@click.option("--consumers", type=click.IntRange(1, 64), default=1, show_default=True)
@click.option("--compression", type=COMPRESSION, default="none", show_default=True)
@click.pass_obj
def bench(
    settings: CliSettings,
    topic: str | None,
    size: int,
    count: int | None,
    seconds: float | None,
    rate: float | None,
    producers: int,
    consumers: int,
    compression: str,
) -> None:
    """Measure messages a second and latency, with the broker that is running.

    Every producer and consumer is a process of its own; several consumers share one subscription.
    The messages are durable, and random, so compression only costs. The topic is deleted
    afterwards. As fast as it goes, latency is mostly time in queues: give a --rate to measure it.
    """
    if count is not None and seconds is not None:
        raise click.UsageError("give --count or --seconds, not both")
    if count is not None and count < producers:
        raise click.UsageError("--count can't be less than --producers")
    if count is None and seconds is None:
        seconds = _DEFAULT_SECONDS
    plan = BenchPlan(
        topic=topic or f"/default/bench-{uuid.uuid4().hex[:12]}",
        size=size,
        count=count,
        seconds=seconds,
        rate=rate,
        producers=producers,
        consumers=consumers,
        compression=compression,
    )
    figures = run(conduct(settings, plan))
    if settings.json:
        write_json({"plan": asdict(plan), "figures": asdict(figures)})
    else:
        _show(plan, figures)


def _show(plan: BenchPlan, figures: BenchResult) -> None:
    latency = figures.latency_ms
    print_fields(
        {
            "messages": f"{figures.messages:,} of {plan.size:,} bytes",
            "published": f"{figures.publish_rate:,.0f} messages/s, until all were acknowledged",
            "end to end": f"{figures.rate:,.0f} messages/s, {figures.megabytes_rate:,.1f} MB/s",
            "latency": ", ".join(f"{name} {value:,.2f} ms" for name, value in latency.items()),
        }
    )
    if plan.rate is None:
        click.echo("(as fast as it goes, so the latency is mostly queues: try --rate)")
