"""Queries a broker's schema registry over HTTP (docs/schemas.md). Blocks, with a timeout."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from emr_jobs.source.options import TopicPatterns
from sulina.errors import NotFound, Refused, Unavailable
from sulina.lake.typed.schema_version import SchemaVersion

_SECONDS: Final = 20.0
_MAX_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Registry:
    """A broker's HTTP address, and the token for it if it asks for one."""

    url: str
    token: str = field(default="", repr=False)

    def get(self, path: str) -> Any:
        """The answer to a request. Raises ``Refused``, ``NotFound`` or ``Unavailable``."""
        url = f"{self.url}/api/v1/{path}"
        try:
            request = urllib.request.Request(url)
            if self.token:
                request.add_unredirected_header("Authorization", f"Bearer {self.token}")
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                return json.loads(answer.read(_MAX_BYTES))
        except urllib.error.HTTPError as error:
            text = error.read(2000).decode(errors="replace").strip()
            kind = NotFound if error.code == HTTPStatus.NOT_FOUND else Refused
            remedy = ""
            if error.code == HTTPStatus.UNAUTHORIZED:
                remedy = "; the option token, or --token of a job, is sent to it"
            raise kind(f"the registry answered {error.code} to {url}: {text}{remedy}") from None
        except (OSError, ValueError) as error:
            raise Unavailable(
                f"the schema registry at {url} is unavailable: {error}. The option registry must "
                "be a broker's HTTP URL such as http://broker:8080"
            ) from None


def fetch_versions(
    registry: Registry, subject: str, topics: TopicPatterns
) -> tuple[SchemaVersion, ...]:
    """All versions of ``subject``, or if it is empty of the topic's subject; the newest last.

    Raises ``Refused``, ``NotFound`` or ``Unavailable``.
    """
    if not subject:
        subject = _subject_of(registry, topics)
    path = f"schemas/{quote(subject, safe='')}"
    numbers = sorted(int(each["version"]) for each in registry.get(f"{path}/versions"))
    return tuple(_version(registry.get(f"{path}?version={number}")) for number in numbers)


def _subject_of(registry: Registry, topics: TopicPatterns) -> str:
    names = topics.exact
    if names is None:
        raise Refused("with a pattern of topics, set the schema's subject with the option subject")
    found = {
        registry.get(f"topics/{name.namespace}/{name.local}/schema")["subject"] for name in names
    }
    if len(found) != 1 or None in found:
        raise Refused(
            f"{topics} has no schema subject, or several: set the option subject, or bind the "
            "topic to one with `sulina schema topic`"
        )
    return str(found.pop())


def _version(found: dict[str, Any]) -> SchemaVersion:
    # Ids have 64 bits; in objects they are stored as signed integers.
    id_ = int(found["id"])
    definition = _bytes(found, "definition")
    assert definition is not None, "every version has a definition"
    return SchemaVersion(
        id_ - (1 << 64) if id_ >= 1 << 63 else id_,
        int(found["version"]),
        str(found["type"]),
        definition,
        _bytes(found, "compiled"),
    )


def _bytes(found: dict[str, Any], name: str) -> bytes | None:
    """A value that is text, or in Base64 if it is not UTF-8."""
    if found.get(name) is not None:
        return str(found[name]).encode()
    encoded = found.get(f"{name}_base64")
    return None if encoded is None else base64.b64decode(encoded)
