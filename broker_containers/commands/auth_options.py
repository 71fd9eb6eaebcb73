"""Options for authentication, of the commands that run brokers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from broker_containers.security.settings import AuthSettings
from sulina.errors import Refused
from sulina.runtime.machine import secret_text

ROOT_VARIABLE: Final = "SULINA_ROOT_TOKEN"
_ROOT_BYTES: Final = 32
LOCAL: Final = ("127.0.0.1", "::1", "localhost")


def auth_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options."""
    for option in (
        click.option(
            "--auth-jwt-key",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Also accept JSON Web Tokens signed (HS256) with the key in this file.",
        ),
        click.option(
            "--auth",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Require tokens from clients. The file holds the root token, which permits "
            "everything; it is created if necessary. All brokers of a cluster need the same one. "
            f"Alternatively, set {ROOT_VARIABLE} to the token itself.",
        ),
    ):
        command = option(command)
    return command


def auth_settings(auth: Path | None, jwt_key: Path | None) -> AuthSettings | None:
    """The settings for these options; None: no authentication.

    Raises ``Refused`` for files that can't be used.
    """
    root = os.environ.get(ROOT_VARIABLE, "")
    if auth is not None:
        root = read_root(auth)
    if not root:
        if jwt_key is not None:
            raise click.UsageError("--auth-jwt-key needs --auth")
        return None
    return AuthSettings(root, None if jwt_key is None else _key(jwt_key))


def read_root(file: Path) -> str:
    """The root token in a file, which is created, readable by its owner only, if necessary."""
    try:
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return file.read_text().strip()
        root = secret_text(_ROOT_BYTES)
        with os.fdopen(descriptor, "w") as made:
            made.write(root + "\n")
        return root
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(
            f"{file} can't be used for the root token ({error}): name another file with --auth"
        ) from None


def _key(file: Path) -> bytes:
    try:
        return file.read_bytes().strip()
    except OSError as error:
        raise Refused(
            f"{file} can't be read ({error}): it must hold the signing key of JSON Web Tokens"
        ) from None


def security_warning(host: str, *, required: bool, secure: bool) -> str:
    """A warning about who can use the broker; empty if there is none."""
    if required:
        if secure or host in LOCAL:
            return ""
        return "tokens are sent unencrypted: --tls-cert enables TLS"
    if host in LOCAL:
        return "off: every program on this machine has full access; --auth FILE requires tokens"
    return "OFF: ANYONE WHO CAN REACH THIS ADDRESS HAS FULL ACCESS; --auth FILE requires tokens"
