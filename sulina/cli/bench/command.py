"""``sulina bench``: measure a running broker through the client library."""

from __future__ import annotations

import uuid
from dataclasses import asdict, replace

import click

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
        "sulina bench --producers 2 --consumers 2 --count 1000000 --json",
    ],
)
@options(BenchPlan)
def bench(settings: CliSettings, options: BenchPlan) -> None:
    """Measure throughput and latency of a running broker.

    Each producer and consumer is a process of its own; several consumers share one subscription.
    Messages are durable and random, so compression saves nothing. The topic is deleted afterwards.
    At full speed, latency is mostly time in queues: give a --rate to measure it.
    """
    if options.count is not None and options.seconds is not None:
        raise click.UsageError("give --count or --seconds, not both")
    if options.count is not None and options.count < options.producers:
        raise click.UsageError("--count can't be less than --producers")
    if options.count is None and options.seconds is None:
        options = replace(options, seconds=_DEFAULT_SECONDS)
    plan = replace(options, topic=options.topic or f"/default/bench-{uuid.uuid4().hex[:12]}")
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
