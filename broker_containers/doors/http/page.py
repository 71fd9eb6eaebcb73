"""The documentation page: the table of routes as HTML, complete in itself, without scripts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import Any

from broker_containers.doors.http.problems import KINDS
from broker_containers.doors.http.routes import Route
from sulina.version import __version__

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --accent: #0b7285; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem; }
h1 { margin-bottom: 0; } h2 { border-bottom: 1px solid var(--line); margin-top: 2.5rem; }
nav a { margin-right: 1rem; } a { color: var(--accent); }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; }
summary { cursor: pointer; padding: .5rem .75rem; }
details > div { border-top: 1px solid var(--line); padding: .5rem .75rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .875em; }
pre { background: var(--soft); border-radius: 4px; margin: .25rem 0; overflow-x: auto;
  padding: .5rem; }
.verb { color: var(--accent); display: inline-block; font-weight: 700; width: 4.5rem; }
table { border-collapse: collapse; width: 100%; }
td, th { border-bottom: 1px solid var(--line); padding: .25rem .5rem; text-align: left; }
"""


def page(routes: Sequence[Route]) -> str:
    """The whole page."""
    groups = [(name, list(rows)) for name, rows in groupby(_sorted(routes), key=lambda r: r.group)]
    links = " ".join(f'<a href="#{name}">{name}</a>' for name, _ in groups)
    chapters = "".join(_chapter(name, rows) for name, rows in groups)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Sulina: HTTP</title><style>{_STYLE}</style></head><body>"
        f"<h1>Sulina over HTTP</h1><p>Version {escape(__version__)}. For machines: "
        '<a href="/openapi.json">openapi.json</a>. How the broker is: '
        '<a href="/health/ready">health</a>, <a href="/metrics">metrics</a>.</p>'
        f'<nav>{links} <a href="#problems">problems</a></nav>{chapters}{_problems()}</body></html>'
    )


def _sorted(routes: Sequence[Route]) -> list[Route]:
    """The groups together, in the order in which the table first names them."""
    first: dict[str, int] = {}
    for route in routes:
        first.setdefault(route.group, len(first))
    return sorted(routes, key=lambda route: first[route.group])


def _chapter(name: str, routes: Sequence[Route]) -> str:
    return f'<h2 id="{name}">{name.capitalize()}</h2>' + "".join(map(_entry, routes))


def _entry(route: Route) -> str:
    parts = [
        f'<details><summary><span class="verb">{route.verb}</span>'
        f"<code>{escape(route.path)}</code><br>{escape(route.summary)}</summary><div>"
    ]
    if route.query:
        rows = "".join(
            f"<tr><td><code>{escape(name)}</code></td><td>{escape(_short(schema))}</td></tr>"
            for name, schema in route.query.items()
        )
        parts.append(f"<p>Parameters:</p><table>{rows}</table>")
    if route.body is not None:
        parts.append(f"<p>Takes:</p><pre>{_sketch(route.body)}</pre>")
    if route.call == "messages.publish":
        parts.append(
            "<p>The body is the message. <code>Sulina-Key</code> gives its key, "
            "<code>Sulina-Attribute-<i>name</i></code> an attribute.</p>"
        )
    if route.status == 204:
        parts.append("<p>Answers 204 without a body.</p>")
    elif route.answer and route.media == "application/json":
        parts.append(f"<p>Answers {route.status}:</p><pre>{_sketch(route.answer)}</pre>")
    return "".join(parts) + "</div></details>"


def _problems() -> str:
    rows = "".join(
        f'<tr id="{kind.name}"><td>{kind.status}</td><td><code>{kind.name}</code></td>'
        f"<td>{escape(kind.title)}</td><td>{'yes' if kind.retriable else ''}</td></tr>"
        for kind in KINDS
    )
    return (
        '<h2 id="problems">Problems</h2><p>Every error is <code>application/problem+json</code> '
        "(RFC 9457); its <code>detail</code> says the cause and the remedy.</p><table><tr>"
        f"<th>status</th><th>kind</th><th>meaning</th><th>try again</th></tr>{rows}</table>"
    )


def _sketch(schema: dict[str, Any]) -> str:
    return escape(json.dumps(_example(schema), indent=2), quote=False)


def _example(schema: dict[str, Any]) -> Any:
    """The shape of what a schema takes, with types in the place of values."""
    if "properties" in schema:
        return {name: _example(each) for name, each in schema["properties"].items()}
    if "items" in schema:
        return [_example(schema["items"])]
    return _short(schema)


def _short(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        words = " | ".join(schema["enum"])
    elif "oneOf" in schema:
        words = " | ".join(json.dumps(_example(each)).strip('"') for each in schema["oneOf"])
    else:
        kind = schema.get("type", "anything")
        words = kind if isinstance(kind, str) else " | ".join(kind)
    told = schema.get("description", "")
    return f"{words}. {told}" if told else words
