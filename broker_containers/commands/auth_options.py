"""Options for authentication and the audit trail, of the commands that run brokers."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import Final

import click

from broker_containers.audit.trail import AuditSettings
from broker_containers.security.settings import (
    GOOD_SECRET,
    AuthSettings,
    JwtSettings,
    OidcSettings,
)
from sulina.audit import TOPIC as AUDIT_TOPIC
from sulina.cli.options import option
from sulina.cli.params import duration
from sulina.errors import Refused
from sulina.runtime.machine import secret_text

_log = logging.getLogger(__name__)
ROOT_VARIABLE: Final = "SULINA_ROOT_TOKEN"
_ROOT_BYTES: Final = 32
LOCAL: Final = ("127.0.0.1", "::1", "localhost")


_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_NEW_FILE: Final = click.Path(dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class SecurityOptions:
    """Who may connect, and what is recorded of it."""

    auth: Path | None = option(
        None,
        "Require tokens from clients. The file holds the root token, which permits everything; it "
        "is created if necessary, and read again when it changes. All brokers of a cluster need "
        f"the same one. Alternatively, set {ROOT_VARIABLE} to the token itself.",
        type=_NEW_FILE,
        metavar="FILE",
    )
    auth_jwt_key: Path | None = option(
        None,
        "Also accept JSON Web Tokens signed (HS256) with the key in this file.",
        type=_FILE,
        metavar="FILE",
    )
    auth_jwt_issuer: str = option(
        "", "Their claim iss must be this. [default: it is not checked]", metavar="TEXT"
    )
    auth_jwt_audience: str = option(
        "", "Their claim aud must be or contain this. [default: it is not checked]", metavar="TEXT"
    )
    auth_jwt_max_age: timedelta = option(
        timedelta(days=1),
        "Maximum lifetime of JSON Web Tokens, also of those of an OpenID Connect provider.",
        type=duration,
        metavar="TIME",
        default="24h",
    )
    oidc_issuer: str = option(
        "", "Also accept tokens of this OpenID Connect provider.", metavar="URL"
    )
    oidc_audience: str = option(
        "",
        "The audience for which the provider issues tokens, such as a client id.",
        metavar="TEXT",
    )
    oidc_client_id: str = option(
        "",
        "The provider's client that `sulina login` uses. [default: the audience]",
        metavar="TEXT",
    )
    oidc_scope: str = option("openid", "What `sulina login` asks the provider for.", metavar="TEXT")
    oidc_principal_claim: str = option("sub", "The claim that names the principal.", metavar="NAME")
    oidc_groups_claim: str = option(
        "groups", "The claim that lists groups; bindings give them roles.", metavar="NAME"
    )
    audit: str | None = option(
        None,
        f"Record administrative changes, sign-ins and refusals in {AUDIT_TOPIC}. "
        "[default: on if clients need tokens]",
        type=click.Choice(["on", "off"]),
    )
    audit_file: Path | None = option(
        None,
        "Also append audit records to this file, one JSON object per line.",
        type=_NEW_FILE,
        metavar="FILE",
    )

    def auth_settings(self) -> AuthSettings | None:
        """How clients authenticate; None if they need no tokens.

        Creates the file of the root token if necessary; warns of secrets that are easy to get.
        Raises ``Refused`` for files that can't be used.
        """
        root = os.environ.get(ROOT_VARIABLE, "")
        if self.auth is not None:
            root = read_root(self.auth)
        if not root:
            if self.auth_jwt_key is not None:
                raise click.UsageError("--auth-jwt-key needs --auth")
            if self.oidc_issuer:
                raise click.UsageError("--oidc-issuer needs --auth")
            return None
        if len(root) < GOOD_SECRET:
            _log.warning(
                "the root token has only %d characters: use one of %d random ones or more",
                len(root),
                GOOD_SECRET,
            )
        for file in (self.auth, self.auth_jwt_key):
            if file is not None:
                _warn_if_readable(file)
        file = None if self.auth is None else self.auth.absolute()
        return AuthSettings(root, self._jwt(), self._oidc(), file)

    def _jwt(self) -> JwtSettings | None:
        if self.auth_jwt_key is None:
            if self.auth_jwt_issuer or self.auth_jwt_audience:
                raise click.UsageError(
                    "--auth-jwt-issuer and --auth-jwt-audience need --auth-jwt-key"
                )
            return None
        return JwtSettings(
            _key(self.auth_jwt_key),
            self.auth_jwt_issuer,
            self.auth_jwt_audience,
            self.auth_jwt_max_age.total_seconds(),
        )

    def _oidc(self) -> OidcSettings | None:
        if not self.oidc_issuer and not self.oidc_audience:
            return None
        if not self.oidc_issuer or not self.oidc_audience:
            raise click.UsageError("--oidc-issuer and --oidc-audience need each other")
        return OidcSettings(
            self.oidc_issuer,
            self.oidc_audience,
            self.oidc_principal_claim,
            self.oidc_groups_claim,
            self.auth_jwt_max_age.total_seconds(),
            client_id=self.oidc_client_id,
            scope=self.oidc_scope,
        )

    def audit_settings(self) -> AuditSettings | None:
        """How the audit trail is written; None if it is not."""
        required = self.auth is not None or bool(os.environ.get(ROOT_VARIABLE))
        on = self.audit == "on" if self.audit else required or self.audit_file is not None
        if self.audit_file is not None and not on:
            raise click.UsageError("--audit-file and --audit off contradict each other")
        file = None if self.audit_file is None else self.audit_file.absolute()
        return AuditSettings(file) if on else None

    def arguments(self) -> list[str]:
        """The same options, for the brokers of a cluster, which run in other folders."""
        words: list[str] = []
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Path):
                value = value.absolute()
            elif isinstance(value, timedelta):
                value = f"{value.total_seconds():g}s"
            if value not in (None, ""):
                words += ["--" + each.name.replace("_", "-"), str(value)]
        return words


def _warn_if_readable(file: Path) -> None:
    try:
        mode = file.stat().st_mode & 0o777
    except OSError:
        return  # reading it says why
    if mode & 0o077:
        _log.warning("others can read or change %s (mode %03o): run chmod 600 %s", file, mode, file)


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
