"""Options that say whether a broker asks for tokens, for the commands that start brokers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from broker_containers.security.settings import AuthSettings
from sulina.errors import Refused
from sulina.runtime.secret_text import secret_text

ROOT_VARIABLE: Final = "SULINA_ROOT_TOKEN"
_ROOT_BYTES: Final = 32
LOCAL: Final = ("127.0.0.1", "::1", "localhost")


def auth_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds them."""
    for option in (
        click.option(
            "--auth-jwt-key",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Take JSON Web Tokens as well that were signed (HS256) with the key in this file.",
        ),
        click.option(
            "--auth",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Ask clients for tokens. The file holds the root token, which may do everything; "
            "it is made if it is missing. All brokers of a cluster have the same one. "
            f"{ROOT_VARIABLE} gives the token itself instead.",
        ),
    ):
        command = option(command)
    return command


def auth_settings(auth: Path | None, jwt_key: Path | None) -> AuthSettings | None:
    """What these options say; None: nobody is asked. Raises ``Refused`` for files and tokens."""
    root = os.environ.get(ROOT_VARIABLE, "")
    if auth is not None:
        root = read_root(auth)
    if not root:
        if jwt_key is not None:
            raise click.UsageError("--auth-jwt-key needs --auth")
        return None
    return AuthSettings(root, None if jwt_key is None else _key(jwt_key))


def read_root(file: Path) -> str:
    """The root token in a file, which is made, for its owner's eyes only, if it is missing."""
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
            f"{file} can't hold the root token ({error}): name another with --auth"
        ) from None


def _key(file: Path) -> bytes:
    try:
        return file.read_bytes().strip()
    except OSError as error:
        raise Refused(f"{file} can't be read ({error}): it must hold the key of tokens") from None


def hint(host: str, *, asks: bool, secure: bool) -> str:
    """What whoever starts a broker should know about who can use it; empty if all is well."""
    if asks:
        if secure or host in LOCAL:
            return ""
        return "tokens travel in the clear: --tls-cert keeps them secret"
    if host in LOCAL:
        return "off: every program on this machine may do everything; --auth FILE asks for tokens"
    return "OFF: WHOEVER REACHES THIS ADDRESS MAY DO EVERYTHING; --auth FILE asks for tokens"
