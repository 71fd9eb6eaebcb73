"""Messages as bytes for standard output: text, JSON lines, hex or raw.

On a terminal, control characters are escaped; in files and pipes the bytes are exact.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from sulina.cli.output import moment
from sulina.cli.settings import CliSettings
from sulina.runtime.terminal import JSON_ESCAPES, visible

if TYPE_CHECKING:
    from sulina import Message

FORMATS: Final = ("text", "json", "raw", "hex")

_FIELDS: Final[dict[str, Callable[[Message], str]]] = {
    "topic": lambda message: message.topic,
    "offset": lambda message: str(message.offset),
    "time": lambda message: moment(message.publish_time_us),
    "key": lambda message: "-" if message.key is None else message.key.decode(errors="replace"),
    "attributes": lambda message: json.dumps(message.attributes, ensure_ascii=False),
}
"""What can be printed before a message, in this order."""


class Printer:
    """Turns messages into bytes as the options say."""

    def __init__(self, settings: CliSettings, form: str | None, shown: Mapping[str, bool]) -> None:
        self._shown = [field for name, field in _FIELDS.items() if shown[f"show_{name}"]]
        form = form or ("json" if settings.json else "text")
        self._one: Callable[[Message], bytes] = {
            "text": self._text,
            "json": _json_line,
            "raw": lambda message: message.payload,
            "hex": self._hex,
        }[form]

    def __call__(self, messages: Iterable[Message]) -> bytes:
        printed = b"".join(map(self._one, messages))
        if not sys.stdout.isatty():
            return printed
        return visible(printed.decode(errors="backslashreplace")).encode()

    def _text(self, message: Message) -> bytes:
        return b"%b%b\n" % (self._before(message), message.payload)

    def _hex(self, message: Message) -> bytes:
        return b"%b%b\n" % (self._before(message), message.payload.hex().encode())

    def _before(self, message: Message) -> bytes:
        return "".join(f"{field(message)}\t" for field in self._shown).encode()


def message_fields(message: Message) -> dict[str, Any]:
    """All fields of a message for JSON. Bytes that are not UTF-8 are in base64."""
    return {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "publish_time": moment(message.publish_time_us),
        "publish_time_us": message.publish_time_us,
        "deliver_at": _iso(message.deliver_at),
        "expires_at": _iso(message.expires_at),
        **_bytes_field("key", message.key),
        "attributes": message.attributes,
        "producer": message.producer,
        "sequence": message.sequence,
        "schema_id": message.schema_id,
        "schema_version": message.schema_version,
        "attempt": message.attempt,
        **_bytes_field("payload", message.payload),
    }


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat().replace("+00:00", "Z")


def _json_line(message: Message) -> bytes:
    text = json.dumps(message_fields(message), ensure_ascii=False)
    return text.translate(JSON_ESCAPES).encode() + b"\n"


def _bytes_field(name: str, value: bytes | None) -> dict[str, str | None]:
    try:
        return {name: None if value is None else value.decode()}
    except UnicodeDecodeError:
        assert value is not None
        return {f"{name}_base64": base64.b64encode(value).decode()}


def printing_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds ``--format`` as ``form`` and the flags ``--show-...`` as ``show_...``."""
    for name in reversed(_FIELDS):
        command = click.option(
            f"--show-{name}", is_flag=True, help=f"Print the {name} before the message."
        )(command)
    return click.option(
        "--format",
        "form",
        type=click.Choice(FORMATS),
        help="text, json and hex print one line per message, json with all fields; raw prints only "
        "the payloads. [default: text]",
    )(command)
