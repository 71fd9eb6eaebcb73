"""Writes architecture.svg, the picture at the top of the README.

    python docs/img/architecture.py     # rewrites docs/img/architecture.svg

Change this file, not the SVG: a test compares the two. The picture carries its own background and
follows the reader's light or dark colour scheme. Only the standard library is used.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Final

WIDTH: Final = 1000
HEIGHT: Final = 710

_STYLE: Final = """
svg { --page: #ffffff; --ink: #1b2733; --soft: #55677a; --line: #8496a8; --panel: #ffffff;
  --client: #eef2f6; --client-edge: #a9b8c7; --broker: #e4f0fb; --broker-edge: #3b82c4;
  --storage: #e1f4ec; --storage-edge: #2f9e74; --lake: #fdf1dc; --lake-edge: #d08b1d;
  --meta: #efeafb; --meta-edge: #7b61c9;
  font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
@media (prefers-color-scheme: dark) {
  svg { --page: #0f1720; --ink: #e7edf3; --soft: #a3b3c2; --line: #6d8093; --panel: #182430;
    --client: #1a2530; --client-edge: #4b5d6f; --broker: #12283d; --broker-edge: #4c93d6;
    --storage: #10291f; --storage-edge: #3fb487; --lake: #2d230f; --lake-edge: #d99a34;
    --meta: #221b38; --meta-edge: #9a83e0; } }
.page { fill: var(--page); }
.panel { fill: var(--panel); stroke: var(--line); stroke-opacity: .55; }
.client { fill: var(--client); stroke: var(--client-edge); }
.broker { fill: var(--broker); stroke: var(--broker-edge); }
.storage { fill: var(--storage); stroke: var(--storage-edge); }
.lake { fill: var(--lake); stroke: var(--lake-edge); }
.meta { fill: var(--meta); stroke: var(--meta-edge); }
.title { fill: var(--ink); font-size: 16px; font-weight: 600; text-anchor: middle; }
.note { fill: var(--soft); font-size: 13px; text-anchor: middle; }
.left { text-anchor: start; }
.arrow { stroke: var(--line); stroke-width: 1.8; fill: none; marker-end: url(#head); }
.both { marker-start: url(#head); }
.head { fill: var(--line); }
.cover { fill: var(--page); }
"""


def box(kind: str, x: int, y: int, width: int, height: int, title: str, *notes: str) -> str:
    """A rounded box with a centred title and notes below it."""
    middle = x + width // 2
    first = y + height // 2 + 6 - 9 * len(notes)
    texts = [text("title", middle, first, title)]
    texts += [text("note", middle, first + 20 + 18 * line, note) for line, note in enumerate(notes)]
    return "\n".join([frame(kind, x, y, width, height), *texts])


def stack(kind: str, x: int, y: int, width: int, height: int) -> str:
    """Three frames behind each other: there are several of this."""
    return "\n".join(frame(kind, x + 7 * i, y - 7 * i, width, height) for i in (2, 1, 0))


def frame(kind: str, x: int, y: int, width: int, height: int) -> str:
    """A rounded rectangle of a kind of part."""
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="10"/>'


def text(kind: str, x: int, y: int, words: str) -> str:
    """A line of text."""
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(words)}</text>'


def arrow(path: str, kind: str = "arrow") -> str:
    """A line with a head at its end."""
    return f'<path class="{kind}" d="{path}"/>'


def label(x: int, y: int, words: str) -> str:
    """A note on top of an arrow, on a background that interrupts it."""
    width = 7 * len(words) + 8
    place = f'x="{x - width // 2}" y="{y - 14}" width="{width}" height="19"'
    cover = f'<rect class="cover" {place} rx="4"/>'
    return f"{cover}\n{text('note', x, y, words)}"


def picture() -> str:
    """The whole SVG document."""
    parts = [
        # Clients
        box("client", 30, 26, 210, 66, "Sulina clients, CLI", "records packed into frames"),
        box("client", 262, 26, 210, 66, "Danube clients, tools", "unchanged"),
        box("client", 494, 26, 210, 66, "HTTP clients", "curl, browsers, Lambda"),
        # Brokers
        stack("broker", 30, 166, 674, 218),
        text("title left", 52, 372, "Brokers"),
        text("note left", 132, 372, "keep no data: any of them can take over any topic"),
        box("panel", 52, 184, 630, 44, "Doors: binary · Danube gRPC · HTTP"),
        box("panel", 52, 264, 190, 84, "Subscriptions", "dispatch, retries,", "cursors"),
        box("panel", 272, 264, 190, 84, "Topics", "offsets, de-duplication,", "tail cache"),
        box("panel", 492, 264, 190, 84, "Managed ledgers", "a topic is a list", "of ledgers"),
        arrow("M147 264V230"),
        arrow("M367 228V262"),
        arrow("M272 306H244"),
        arrow("M462 306H490"),
        # Doors
        arrow("M135 92V182"),
        arrow("M367 92V182"),
        arrow("M599 92V182"),
        label(135, 126, "binary TCP :6655"),
        label(367, 126, "gRPC :6650, admin :50051"),
        label(599, 126, "HTTP :8080"),
        # Metadata
        box(
            *("meta", 770, 166, 200, 218, "etcd"),
            *("leader, owners of topics,", "ledger lists, cursors,", "policies, schemas, tokens"),
            *("", "(a single process embeds", "its metadata store)"),
        ),
        arrow("M720 275H768", "arrow both"),
        # Storage nodes
        stack("storage", 30, 466, 674, 92),
        box("panel", 52, 482, 302, 60, "Journal", "one for all ledgers, group fdatasync"),
        text("title left", 384, 508, "Storage nodes"),
        text("note left", 384, 529, "or, in a single process, its own journal"),
        arrow("M587 348V464"),
        label(560, 420, "gRPC :6660, 3 copies, 2 synced before the ack"),
        # The lake
        arrow("M203 558V616"),
        label(203, 590, "closed ledgers, verified before local deletion"),
        arrow("M587 616V560"),
        label(587, 592, "replays"),
        box(
            *("lake", 30, 618, 674, 66, "Object store: S3, GCS, Redis or a folder"),
            "one Parquet object per ledger, for replays and for queries",
        ),
        box("lake", 770, 618, 200, 66, "Spark and SQL", "EMR, DuckDB, Athena"),
        arrow("M704 651H768"),
    ]
    body = "\n".join(parts)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" \
aria-label="Clients reach brokers through three doors; brokers write ledgers to storage nodes and \
metadata to etcd; closed ledgers become Parquet in an object store, where Spark reads them.">
<!-- Written by architecture.py: change that file, then run it. -->
<style>{_STYLE}</style>
<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" \
orient="auto-start-reverse"><path class="head" d="M0 0L10 5L0 10z"/></marker></defs>
<rect class="page" width="{WIDTH}" height="{HEIGHT}" rx="14"/>
{body}
</svg>
"""


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(picture(), encoding="utf-8")
