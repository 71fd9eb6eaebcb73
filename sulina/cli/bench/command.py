"""``sulina bench``: measure a running broker through the client library."""

from __future__ import annotations

import uuid
from dataclasses import asdict

import click

from sulina.cli.bench.coordinator import BenchPlan, BenchResult, run_benchmark
from sulina.cli.command import CliCommand
from sulina.cli.output import print_fields, write_json
from sulina.cli.params import COUNT, POSITIVE, compression_option, topic_name
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
    "--topic",
    type=topic_name,
    metavar="TOPIC",
    help="A topic that does not exist yet. [default: /default/bench-...]",
)
@click.option(
    "--size",
    type=click.IntRange(16, 8 << 20),
    default=100,
    show_default=True,
    help="Message size in bytes.",
)
@click.option("--count", type=COUNT, help="Total number of messages to publish.")
@click.option("--seconds", type=POSITIVE, help="How long to publish. [default: 5]")
@click.option(
    "--rate", type=POSITIVE, help="Total messages per second. [default: as fast as possible]"
)
@click.option(
    "--producers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Number of producer processes.",
)
@click.option(
    "--consumers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Number of consumer processes.",
)
@compression_option
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
    """Measure throughput and latency of a running broker.

    Each producer and consumer is a process of its own; several consumers share one subscription.
    Messages are durable and random, so compression saves nothing. The topic is deleted afterwards.
    At full speed, latency is mostly time in queues: give a --rate to measure it.
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
    result = run(run_benchmark(settings, plan))
    if settings.json:
        write_json({"plan": asdict(plan), "figures": asdict(result)})
    else:
        _show(plan, result)


def _show(plan: BenchPlan, result: BenchResult) -> None:
    latency = result.latency_ms
    print_fields(
        {
            "messages": f"{result.messages:,} of {plan.size:,} bytes",
            "published": f"{result.publish_rate:,.0f} messages/s, until all were acknowledged",
            "end to end": f"{result.rate:,.0f} messages/s, {result.megabytes_rate:,.1f} MB/s",
            "latency": ", ".join(f"{name} {value:,.2f} ms" for name, value in latency.items()),
        }
    )
    if plan.rate is None:
        click.echo("(at full speed, latency is mostly time in queues: give a --rate to measure it)")
