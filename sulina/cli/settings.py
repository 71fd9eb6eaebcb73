"""Which broker, and how to answer: the options that stand before a command or behind it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import click

DEFAULT_URL: Final = "sulina://127.0.0.1:6655"


@dataclass(frozen=True, slots=True)
class CliSettings:
    """What every command gets. Behind the command wins over before it, then the environment."""

    url: str = DEFAULT_URL
    token: str = ""
    tls_ca: str | None = None
    json: bool = False
    timeout: float = 10.0


_OPTIONS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "url": (
        "SULINA_URL",
        {"metavar": "URL", "help": f"The broker. [default: {DEFAULT_URL}]"},
    ),
    "token": (
        "SULINA_TOKEN",
        {"metavar": "TOKEN", "help": "Shown to the broker, if it wants one."},
    ),
    "tls_ca": (
        "SULINA_TLS_CA",
        {
            "type": click.Path(exists=True, dir_okay=False),
            "metavar": "FILE",
            "help": "Certificates to trust, for sulina+tls:// URLs.",
        },
    ),
    "json": (
        "SULINA_JSON",
        {"is_flag": True, "default": None, "help": "Answer in JSON, for scripts."},
    ),
    "timeout": (
        "SULINA_TIMEOUT",
        {
            "type": click.FloatRange(min=0, min_open=True),
            "metavar": "SECONDS",
            "help": "How long to wait for a broker's answer. [default: 10]",
        },
    ),
}
COMMON: Final = tuple(_OPTIONS)


class CommonOption(click.Option):
    """An option that changes the settings; help lists these apart from a command's own."""


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    # Not given here: what the group before this command was given stays.
    if value is not None and parameter.name is not None:
        context.obj = replace(context.obj, **{parameter.name: value})


def common_options(
    names: Iterable[str] = COMMON, *, environment: bool = False
) -> list[click.Parameter]:
    """The options of these names; only the outermost command looks into the environment, so
    that a flag anywhere on the line wins over it."""
    made: list[click.Parameter] = []
    for name in names:
        variable, attributes = _OPTIONS[name]
        made.append(
            CommonOption(
                [f"--{name.replace('_', '-')}", name],
                callback=_keep,
                expose_value=False,
                envvar=variable if environment else None,
                show_envvar=environment,
                **attributes,
            )
        )
    return made
