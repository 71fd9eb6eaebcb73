"""``sulina schema``: register, check and look up schemas, and bind topics to them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final

import click

from sulina.cli.command import CliGroup
from sulina.cli.failures import ExitCode
from sulina.cli.output import (
    columns,
    confirm,
    echo,
    moment,
    say,
    show_fields,
    show_rows,
    write_json,
)
from sulina.cli.params import COUNT, MemberOf, topic_name, yes_option
from sulina.cli.running import ask
from sulina.cli.settings import CliSettings
from sulina.metadata.keys.schemas import Compatibility, SchemaType, Validation

_SUFFIXES: Final = {
    ".avsc": SchemaType.AVRO,
    ".json": SchemaType.JSON_SCHEMA,
    ".proto": SchemaType.PROTOBUF,
}
_mode = MemberOf(Compatibility)
_type = MemberOf(SchemaType)
_file = click.Path(dir_okay=False, allow_dash=True, path_type=Path)


@click.group(cls=CliGroup)
def schema() -> None:
    """Register, check and look up schemas, and bind topics to them."""


@schema.command(
    "register",
    examples=[
        "sulina schema register orders order.avsc",
        "sulina schema register orders order.json --type json_schema --tag billing",
        "sulina schema register readings --type number",
    ],
)
@click.argument("subject")
@click.argument("file", required=False, type=_file)
@click.option("--type", "kind", type=_type, help="The schema type. [default: from the file name]")
@click.option("--description", help="What the schema is for.")
@click.option("--by", help="Author to record, without authentication or with the root token.")
@click.option("--tag", "tags", multiple=True, help="A tag to find it by; may be repeated.")
def register(
    settings: CliSettings,
    subject: str,
    file: Path | None,
    kind: SchemaType | None,
    description: str | None,
    by: str | None,
    tags: tuple[str, ...],
) -> None:
    """Register FILE (- for standard input) as the next version of SUBJECT.

    A schema that is already registered keeps its version. The types bytes, string and number need
    no FILE.
    """
    type_, definition = _definition(file, kind)
    made = ask(
        settings,
        lambda admin: admin.schemas.register(
            subject,
            type_,
            definition_base64=definition,
            description=description or "",
            by=by or "",
            tags=tags,
        ),
    )
    what = "registered" if made.new else "already registered"
    say(settings, f"{subject} version {made.version} (id {made.id}): {what}", made)


@schema.command("list", examples=["sulina schema list"])
def list_(settings: CliSettings) -> None:
    """List the subjects."""
    show_rows(
        settings,
        ask(settings, lambda admin: admin.schemas.list()),
        columns("subject", "id", "type", "latest", "versions", "compatibility", "tags"),
        nothing="there are no schemas: `sulina schema register orders order.avsc` registers one",
    )


@schema.command(
    "get",
    examples=["sulina schema get orders", "sulina schema get orders --version 2"],
)
@click.argument("subject")
@click.option("--version", type=COUNT, help="The version to print. [default: the latest]")
def get(settings: CliSettings, subject: str, version: int | None) -> None:
    """Print a schema as it was registered; with --json, all its fields."""
    found = ask(settings, lambda admin: admin.schemas.get(subject, version=version or 0))
    if settings.json:
        write_json(found)
    else:
        echo(found.definition)


@schema.command("versions", examples=["sulina schema versions orders"])
@click.argument("subject")
def versions(settings: CliSettings, subject: str) -> None:
    """List the versions of a subject."""
    show_rows(
        settings,
        ask(settings, lambda admin: admin.schemas.versions(subject)),
        columns("version", "type", "created", "created_by", "description", "fingerprint"),
        nothing=f"{subject} has no versions",
        readable=lambda row: {"created": moment(row.created_us)},
    )


@schema.command("check", examples=["sulina schema check orders order.avsc --mode full"])
@click.argument("subject")
@click.argument("file", required=False, type=_file)
@click.option("--type", "kind", type=_type, help="The schema type. [default: from the file name]")
@click.option("--mode", type=_mode, help="The compatibility mode. [default: the subject's]")
def check(
    settings: CliSettings,
    subject: str,
    file: Path | None,
    kind: SchemaType | None,
    mode: Compatibility | None,
) -> int:
    """Check whether FILE could be registered. If not, print why and exit with 1."""
    type_, definition = _definition(file, kind)
    found = ask(
        settings,
        lambda admin: admin.schemas.check(
            subject, type_, definition_base64=definition, compatibility=mode
        ),
    )
    if settings.json:
        write_json(found)
    elif found.compatible:
        echo(f"compatible with {subject}")
    else:
        echo("\n".join(found.reasons))
    return ExitCode.FINE if found.compatible else ExitCode.FAILED


@schema.command(
    "compatibility",
    examples=["sulina schema compatibility orders", "sulina schema compatibility orders full"],
)
@click.argument("subject")
@click.argument("mode", required=False, type=_mode)
def compatibility(settings: CliSettings, subject: str, mode: Compatibility | None) -> None:
    """Show or set the compatibility that new versions of SUBJECT must have.

    backward: a new version reads data of the previous one. forward: the previous version reads
    data of the new one. full: both. none: no check. The transitive modes check all versions.
    """
    found = ask(settings, lambda admin: admin.schemas.compatibility(subject, compatibility=mode))
    say(settings, f"compatibility of {subject}: {found.compatibility}", found)


@schema.command("delete", examples=["sulina schema delete orders --version 1 --yes"])
@click.argument("subject")
@click.option("--version", type=COUNT, help="Delete only this version.")
@yes_option
def delete(settings: CliSettings, subject: str, version: int | None, yes: bool) -> None:
    """Delete a version, or a subject with all its versions.

    Messages stay, but their schema can no longer be looked up.
    """
    what = f"schema {subject}" if version is None else f"version {version} of {subject}"
    confirm(settings, f"delete {what}?", yes=yes)
    ask(settings, lambda admin: admin.schemas.delete(subject, version=version))
    say(settings, f"deleted {what}", {"subject": subject, "version": version})


@schema.command(
    "topic",
    examples=[
        "sulina schema topic /default/orders",
        "sulina schema topic /default/orders --subject orders --validation enforce --payload",
    ],
)
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.option("--subject", help="Bind the topic to this subject.")
@click.option(
    "--validation",
    type=MemberOf(Validation),
    help="What to do with messages that do not match the subject.",
)
@click.option("--payload/--no-payload", default=None, help="Whether to validate payloads.")
def topic(
    settings: CliSettings,
    name: str,
    subject: str | None,
    validation: Validation | None,
    payload: bool | None,
) -> None:
    """Show the schema subject of a topic, or bind the topic to one."""
    if subject is None and validation is None and payload is None:
        found = ask(settings, lambda admin: admin.schemas.topic(name))
    else:
        found = ask(
            settings,
            lambda admin: admin.schemas.bind(
                name, subject=subject, validation=validation, payload=payload
            ),
        )
    show_fields(settings, found)


def _definition(file: Path | None, kind: SchemaType | None) -> tuple[str, str | None]:
    """The type and the definition, as arguments of the broker's methods."""
    if file is None:
        if kind is None:
            raise click.UsageError("give a FILE, or a --type that needs none")
        return kind, None
    if str(file) != "-" and not file.exists():
        raise click.UsageError(f"{file} does not exist")
    found = kind or _SUFFIXES.get(file.suffix)
    if found is None:
        raise click.UsageError(f"the schema type of {file} is not clear from its name: give --type")
    with click.open_file(str(file), "rb") as source:
        raw = source.read()
    return str(found), base64.b64encode(raw).decode()
