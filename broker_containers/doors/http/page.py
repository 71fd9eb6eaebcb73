"""The pages of the door: an index, and the documentation of all endpoints, without scripts."""

from __future__ import annotations

import json
from dataclasses import asdict
from html import escape
from itertools import groupby
from typing import Any

from broker_containers.doors.http.openapi import body_schema
from broker_containers.doors.http.problems import KINDS
from broker_containers.doors.http.routes import ENDPOINTS, PAGES, PUBLISH, Endpoint
from broker_containers.security.settings import SignInProvider
from sulina.operations.json_forms import Schema
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


_ABOUT = "Sulina is a publish/subscribe messaging platform. This is the HTTP door of one broker."


def index(broker: str, provider: SignInProvider | None, *, token: bool) -> dict[str, Any]:
    """What ``GET /`` answers to programs; ``token`` is whether callers need one."""
    links = {page.name: page.path for page in PAGES if page.path != "/"}
    return {
        "about": _ABOUT,
        "broker": broker,
        "version": __version__,
        "links": links,
        "sign_in": {"token": token, "provider": None if provider is None else asdict(provider)},
    }


def documentation_page() -> str:
    """The documentation of all endpoints."""
    order = list(dict.fromkeys(endpoint.group for endpoint in ENDPOINTS))
    ordered = sorted(ENDPOINTS, key=lambda each: order.index(each.group))
    groups = [(name, list(rows)) for name, rows in groupby(ordered, key=lambda each: each.group)]
    links = " ".join(f'<a href="#{name}">{name}</a>' for name, _ in groups)
    named: dict[str, Schema] = {}
    chapters = "".join(
        f'<h2 id="{name}">{name.capitalize()}</h2>' + "".join(_entry(row, named) for row in rows)
        for name, rows in groups
    )
    return _html(
        "Sulina: HTTP",
        f"<h1>Sulina over HTTP</h1><p>Version {escape(__version__)}. For machines: "
        '<a href="/openapi.json">openapi.json</a>. State of the broker: '
        '<a href="/health/ready">health</a>, <a href="/metrics">metrics</a>.</p>'
        f'<nav>{links} <a href="#problems">problems</a></nav>{chapters}{_problems()}',
    )


def _html(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>{body}</body></html>"
    )


def _entry(endpoint: Endpoint, named: dict[str, Schema]) -> str:
    operation = endpoint.operation
    about = endpoint.summary if operation is None else operation.description
    parts = [
        f'<details><summary><span class="verb">{endpoint.verb}</span>'
        f"<code>{escape(endpoint.path)}</code><br>{escape(endpoint.summary)}</summary><div>"
    ]
    if about != endpoint.summary:
        parts.append(f"<p>{escape(about.removeprefix(endpoint.summary).strip())}</p>")
    if operation is not None and operation.needs_cluster:
        parts.append("<p>A single broker answers 404: this needs a cluster.</p>")
    if endpoint.query:
        rows = "".join(
            f"<tr><td><code>{escape(name)}</code></td>"
            f"<td>{escape(_short(each.described.schema(named), named))}</td></tr>"
            for name, each in endpoint.query.items()
        )
        parts.append(f"<p>Parameters:</p><table>{rows}</table>")
    if endpoint.name == PUBLISH:
        parts.append(
            "<p>The body is the message. <code>Sulina-Key</code> gives its key, "
            "<code>Sulina-Attribute-<i>name</i></code> an attribute.</p>"
        )
    elif endpoint.body:
        parts.append(f"<p>Body:</p><pre>{_sketch(body_schema(endpoint, named), named)}</pre>")
    if endpoint.status == 204:
        parts.append("<p>Answers 204 without a body.</p>")
    elif endpoint.media == "application/json":
        answer = _sketch(endpoint.answer_schema(named), named)
        parts.append(f"<p>Answers {endpoint.status}:</p><pre>{answer}</pre>")
    return "".join(parts) + "</div></details>"


def _problems() -> str:
    rows = "".join(
        f'<tr id="{kind.name}"><td>{kind.status}</td><td><code>{kind.name}</code></td>'
        f"<td>{escape(kind.title)}</td><td>{'yes' if kind.retriable else ''}</td></tr>"
        for kind in KINDS
    )
    return (
        '<h2 id="problems">Problems</h2><p>Every error is <code>application/problem+json</code> '
        "(RFC 9457); <code>detail</code> gives the cause and the remedy.</p><table><tr>"
        f"<th>status</th><th>kind</th><th>meaning</th><th>retriable</th></tr>{rows}</table>"
    )


def _sketch(schema: Schema, named: dict[str, Schema]) -> str:
    return escape(json.dumps(_example(schema, named), indent=2), quote=False)


def _example(schema: Schema, named: dict[str, Schema]) -> Any:
    """The shape that a schema describes, with types in place of values."""
    if "$ref" in schema:
        return _example(named[schema["$ref"].rpartition("/")[2]], named)
    if schema.get("properties"):
        return {name: _example(each, named) for name, each in schema["properties"].items()}
    if "items" in schema:
        return [_example(schema["items"], named)]
    return _short(schema, named)


def _short(schema: Schema, named: dict[str, Schema]) -> str:
    if "$ref" in schema:
        schema = {**named[schema["$ref"].rpartition("/")[2]], **schema}
    several = schema.get("oneOf") or schema.get("anyOf")
    if "enum" in schema:
        words = " | ".join(map(str, schema["enum"]))
    elif several:
        words = " | ".join(json.dumps(_example(each, named)).strip('"') for each in several)
    else:
        kind = schema.get("type", "anything")
        words = kind if isinstance(kind, str) else " | ".join(kind)
    description = schema.get("description", "")
    return f"{words}. {description}" if description else words
