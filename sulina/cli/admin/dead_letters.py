"""``sulina topic replay``: publish dead letters again, where they came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import click

from sulina.cli.command import CliCommand
from sulina.cli.output import echo, plural, shown_as_json
from sulina.cli.params import COUNT, FROM, topic_name
from sulina.cli.progress import Progress
from sulina.cli.running import connected, run
from sulina.cli.settings import CliSettings
from sulina.errors import SulinaError
from sulina.model import Start

if TYPE_CHECKING:
    from sulina import Client

_AT_ONCE: Final = 1000


@dataclass(slots=True)
class _Replayed:
    """What was done with one partition of a topic of dead letters."""

    topic: str
    replayed: int = 0
    left_out: int = 0
    topics: dict[str, int] = field(default_factory=dict)
    next_offset: int = 0

    def sentence(self) -> str:
        where = ", ".join(f"{count:,} to {name}" for name, count in sorted(self.topics.items()))
        text = f"{self.topic}: replayed {plural(self.replayed, 'message')}"
        if where:
            text += f" ({where})"
        if self.left_out:
            text += f"; {plural(self.left_out, 'message')} without an origin left out"
        return f"{text}; continue with --from {self.next_offset}"


@click.command(
    "replay",
    cls=CliCommand,
    examples=[
        "sulina topic replay /default/jobs-failed",
        "sulina topic replay /default/jobs-failed --from 1200 --count 50",
        "sulina topic replay /default/jobs-failed --from 2026-05-01T12:30:00Z",
    ],
)
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.option(
    FROM["flag"],
    "start",
    type=FROM["type"],
    metavar=FROM["metavar"],
    help="Where to start. [default: earliest]",
)
@click.option(
    "--count",
    type=COUNT,
    help="Look at this many messages at most, in each partition. [default: what is there now]",
)
def replay(settings: CliSettings, name: str, start: Start | None, count: int | None) -> None:
    """Publish the dead letters in TOPIC again, to the topics that they came from.

    Payload, key and attributes are the original ones. The letters stay in TOPIC, so the next time
    continue at the offset that is printed, or they are published once more. What arrives meanwhile
    is left for then.
    """
    done = run(_replay(settings, name, start or Start.earliest(), count))
    if not shown_as_json(settings, done):
        for part in done:
            echo(part.sentence())


async def _replay(
    settings: CliSettings, name: str, start: Start, count: int | None
) -> list[_Replayed]:
    done: list[_Replayed] = []
    async with connected(settings) as client:
        for topic, _ in (await client.topic(name)).parts:
            done.append(_Replayed(topic))
            try:
                await _replay_part(settings, client, done[-1], start, count)
            except SulinaError:
                for part in done:
                    echo(part.sentence(), err=True)
                raise
    return done


async def _replay_part(
    settings: CliSettings, client: Client, done: _Replayed, start: Start, most: int | None
) -> None:
    first = await client.admin.messages.search(done.topic, start=start, limit=1)
    end = first.end_offset
    at = first.messages[0].offset if first.messages else end
    done.next_offset = at
    if most is not None:
        end = min(end, at + most)
    with Progress(settings, f"replaying {done.topic}", end - at) as bar:
        while done.next_offset < end:
            step = await client.admin.messages.replay(
                done.topic,
                start=Start.offset(done.next_offset),
                limit=min(_AT_ONCE, end - done.next_offset),
            )
            done.replayed += step.replayed
            done.left_out += step.left_out
            for name, count in step.topics.items():
                done.topics[name] = done.topics.get(name, 0) + count
            done.next_offset = step.next_offset
            bar.show(done.next_offset - at, f"{done.replayed:,} messages")
            if step.at_end:
                return
