"""``sulina bench``: measure a running broker through the client library."""

from __future__ import annotations

import uuid
from dataclasses import asdict, replace
from pathlib import Path

import click

from sulina.cli.bench import picture
from sulina.cli.bench.coordinator import BenchPlan, BenchResult, run_benchmark
from sulina.cli.command import CliCommand
from sulina.cli.options import options
from sulina.cli.output import print_fields, write_json
from sulina.cli.running import run
from sulina.cli.settings import CliSettings

_DEFAULT_SECONDS = 5.0


@click.command(
    cls=CliCommand,
    examples=[
        "sulina bench",
        "sulina bench --size 1024 --rate 5000 --seconds 10",
        "sulina bench --size 1024 --rate 5000 --trace",
        "sulina bench --producers 2 --consumers 2 --count 1000000 --json",
    ],
)
@options(BenchPlan)
def bench(settings: CliSettings, options: BenchPlan) -> None:
    """Measure throughput and latency of a running broker.

    Each producer and consumer is a process of its own; several consumers share one subscription.
    Messages are durable and random, so compression saves nothing. The topic is deleted afterwards.
    At full speed, latency is mostly time in queues: give a --rate to measure it.

    With --trace, up to 500 frames per second tell when they passed each stage: client, socket,
    topic, journal, storage nodes, reply, dispatch, delivery. The columns at p50 and p99 are the
    stages of the messages that took that long, so that they add up.
    """
    if options.count is not None and options.seconds is not None:
        raise click.UsageError("give --count or --seconds, not both")
    if options.count is not None and options.count < options.producers:
        raise click.UsageError("--count can't be less than --producers")
    if options.count is None and options.seconds is None:
        options = replace(options, seconds=_DEFAULT_SECONDS)
    if options.trace_svg is not None:
        options = replace(options, trace=True)
    plan = replace(options, topic=options.topic or f"/default/bench-{uuid.uuid4().hex[:12]}")
    result = run(run_benchmark(settings, plan))
    if plan.trace_svg is not None and result.trace is not None:
        title = f"{plan.size:,} bytes, {plan.rate or result.rate:,.0f} messages/s"
        Path(plan.trace_svg).write_text(picture.svg(result.trace, title), encoding="utf-8")
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
    if result.trace is not None:
        for line in picture.lines(result.trace):
            click.echo(line)
    elif plan.trace:
        click.echo("(nothing was traced: a broker of this version is needed)")
    if plan.rate is None:
        click.echo("(at full speed, latency is mostly time in queues: give a --rate to measure it)")
