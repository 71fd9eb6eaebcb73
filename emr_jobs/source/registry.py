"""Asks a broker's schema registry over HTTP (see docs/schemas.md). Blocks, with a deadline."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from emr_jobs.source.options import Topics
from sulina.errors import NotFound, Refused, Unavailable

_SECONDS: Final = 20.0
_LARGEST: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a subject. Records name ``id`` (as the object's column has it) and number."""

    subject: str
    id: int
    number: int
    type: str
    definition: str


def fetch_versions(url: str, subject: str, topics: Topics) -> tuple[Version, ...]:
    """All versions of ``subject``, the newest last; without a name, of the topic's subject.

    Raises ``Refused`` with what to do, ``NotFound``, or ``Unavailable``.
    """
    if not subject:
        subject = _subject_of(url, topics)
    path = f"{url}/api/v1/schemas/{quote(subject, safe='')}"
    numbers = sorted(int(each["version"]) for each in _get(f"{path}/versions"))
    return tuple(_version(_get(f"{path}?version={number}")) for number in numbers)


def _subject_of(url: str, topics: Topics) -> str:
    names = topics.exact
    if names is None:
        raise Refused("with a pattern of topics name the schema's subject: option subject")
    found = {
        _get(f"{url}/api/v1/topics/{name.namespace}/{name.local}/schema")["subject"]
        for name in names
    }
    if len(found) != 1 or None in found:
        raise Refused(
            f"{topics} has no schema subject of its own, or several: name it by option subject, "
            "or bind the topic with `sulina schema topic`"
        )
    return str(found.pop())


def _version(found: dict[str, Any]) -> Version:
    definition = found.get("definition")
    if definition is None:
        definition = base64.b64decode(found["definition_base64"]).decode("latin-1")
    # Ids have 64 bits; the objects' column holds them signed.
    id_ = int(found["id"])
    return Version(
        str(found["subject"]),
        id_ - (1 << 64) if id_ >= 1 << 63 else id_,
        int(found["version"]),
        str(found["type"]),
        str(definition),
    )


def _get(url: str) -> Any:
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:
            return json.loads(answer.read(_LARGEST))
    except urllib.error.HTTPError as error:
        told = error.read(2000).decode(errors="replace")
        kind = NotFound if error.code == 404 else Refused
        raise kind(f"the registry answered {error.code} to {url}: {told}") from None
    except (OSError, ValueError) as error:
        raise Unavailable(
            f"the schema registry at {url} can't be asked: {error}. Option registry is the URL of "
            "a broker's HTTP door, as http://broker:8080"
        ) from None
