"""The common options: which broker to use, and how to print. Given before or after a command."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import click

DEFAULT_URL: Final = "sulina://127.0.0.1:6655"


@dataclass(frozen=True, slots=True)
class CliSettings:
    """What every command receives.

    An option after the command overrides one before it, which overrides the environment.
    """

    url: str = DEFAULT_URL
    token: str = ""
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    json: bool = False
    timeout: float = 10.0


_OPTIONS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "url": (
        "SULINA_URL",
        {"metavar": "URL", "help": f"URL of the broker. [default: {DEFAULT_URL}]"},
    ),
    "token": (
        "SULINA_TOKEN",
        {"metavar": "TOKEN", "help": "Token to authenticate with."},
    ),
    "tls_ca": (
        "SULINA_TLS_CA",
        {
            "type": click.Path(exists=True, dir_okay=False),
            "metavar": "FILE",
            "help": "CA certificates to trust (PEM), for sulina+tls:// URLs.",
        },
    ),
    "tls_cert": (
        "SULINA_TLS_CERT",
        {
            "type": click.Path(exists=True, dir_okay=False),
            "metavar": "FILE",
            "help": "Client certificate (PEM) to authenticate with, in place of a token.",
        },
    ),
    "tls_key": (
        "SULINA_TLS_KEY",
        {
            "type": click.Path(exists=True, dir_okay=False),
            "metavar": "FILE",
            "help": "Its key (PEM). [default: in the same file]",
        },
    ),
    "json": (
        "SULINA_JSON",
        {"is_flag": True, "default": None, "help": "Print JSON, for scripts."},
    ),
    "timeout": (
        "SULINA_TIMEOUT",
        {
            "type": click.FloatRange(min=0, min_open=True),
            "metavar": "SECONDS",
            "help": "How long to wait for the broker to answer. [default: 10]",
        },
    ),
}
COMMON: Final = tuple(_OPTIONS)


class CommonOption(click.Option):
    """An option that changes the settings; help lists these separately."""


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    # Not given here: keep the value given before the command.
    if value is not None and parameter.name is not None:
        context.obj = replace(context.obj, **{parameter.name: value})


def common_options(
    names: Iterable[str] = COMMON, *, environment: bool = False
) -> list[click.Parameter]:
    """The options with these names.

    Only the outermost command reads the environment, so that a flag anywhere overrides it.
    """
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
