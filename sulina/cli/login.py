"""``sulina login``, ``logout`` and ``whoami``: signing in with the brokers' identity provider."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from sulina.cli.command import CliCommand
from sulina.cli.output import echo, moment, say, write_json
from sulina.cli.running import ask, connected, run
from sulina.cli.settings import CliSettings
from sulina.errors import Refused, SignInNeeded

if TYPE_CHECKING:
    from sulina.client.login import DeviceCode, Login, SignInOffer
    from sulina.operations.security import OwnRights


@click.command(
    cls=CliCommand,
    examples=["sulina login --url sulina+tls://broker.example:6655"],
)
@click.option(
    "--issuer",
    metavar="URL",
    help="The OpenID Connect provider. [default: the one that the broker names]",
)
@click.option("--client-id", metavar="TEXT", help="The provider's client for the command line.")
def login(settings: CliSettings, issuer: str | None, client_id: str | None) -> None:
    """Sign in with the provider of identities that the brokers trust.

    Prints an address and a code: open the address in a browser, on any device, and enter the code.
    Later commands for the same --url use the token, and renew it, until `sulina logout`. Options
    for tokens and certificates have precedence.
    """
    run(_sign_in(settings, issuer, client_id))


async def _sign_in(settings: CliSettings, issuer: str | None, client_id: str | None) -> None:
    from sulina.client.login import DeviceSignIn, save_login
    from sulina.runtime.real_clock import RealClock

    offer = await _offer(settings, issuer, client_id)
    flow = DeviceSignIn(offer, RealClock())
    code = await flow.begin()
    _show(settings, offer, code)
    made = await flow.finish(settings.url, code)
    found = await _who(settings, made)  # a sign-in that the brokers do not accept is not stored
    await asyncio.to_thread(save_login, made)
    say(
        settings,
        f"signed in at {settings.url} as {found.principal}",
        {"signed_in": True, "principal": found.principal},
    )


async def _offer(settings: CliSettings, issuer: str | None, client_id: str | None) -> SignInOffer:
    """Which provider to use. Only a broker whose answer nobody on the way can change is believed:
    otherwise people could be sent to sign in for somebody else."""
    from sulina.client.address import parse_addresses
    from sulina.client.login import SignInOffer
    from sulina.runtime.web_calls import LOOPBACK

    if (issuer is None) is not (client_id is None):
        raise Refused("--issuer and --client-id need each other")
    trusted = all(each.secure or each.host in LOOPBACK for each in parse_addresses(settings.url))
    if issuer is not None and client_id is not None:
        return SignInOffer(issuer, client_id, client_id)
    if not trusted:
        raise Refused(
            f"{settings.url} is not protected by TLS, so the provider that it names can't be "
            "trusted: use a sulina+tls:// URL, or name the provider with --issuer and --client-id"
        )
    try:
        async with connected(replace(settings, token="", tls_cert=None), stored=False):
            raise Refused(f"the broker at {settings.url} needs no token")
    except SignInNeeded as needed:
        audience = needed.audience or needed.client_id
        return SignInOffer(needed.issuer, needed.client_id, audience, needed.scope or "openid")


async def _who(settings: CliSettings, made: Login) -> OwnRights:
    with_token = replace(settings, token=made.token, tls_cert=None, tls_key=None)
    async with connected(with_token) as client:
        return await client.admin.principals.whoami()


def _show(settings: CliSettings, offer: SignInOffer, code: DeviceCode) -> None:
    if settings.json:
        write_json(
            {
                "issuer": offer.issuer,
                "verification_uri": code.address,
                "verification_uri_complete": code.whole_address,
                "user_code": code.code,
                "expires_in": code.seconds,
            }
        )
        return
    # Whoever has the token can use it: people must see who gets it.
    echo(f"The brokers at {settings.url} will get a token of {offer.issuer}.")
    echo(f"Open {code.address} in a browser and enter the code {code.code}")
    if code.whole_address:
        echo(f"or open {code.whole_address}, and compare the code")
    echo(f"Waiting for {code.seconds / 60:.0f} minutes; Ctrl-C ends it.")


@click.command(cls=CliCommand, examples=["sulina logout"])
def logout(settings: CliSettings) -> None:
    """Delete what `sulina login` stored for --url, and end it at the provider."""
    from sulina.client.login import forget_login

    if not forget_login(settings.url):
        raise Refused(f"nobody is signed in at {settings.url}")
    say(settings, f"signed out of {settings.url}", {"signed_in": False})


@click.command(cls=CliCommand, examples=["sulina whoami", "sulina whoami --json"])
def whoami(settings: CliSettings) -> None:
    """Show who you are to the broker, and your rights."""
    found = ask(settings, lambda admin: admin.principals.whoami())
    rights = ", ".join((*found.grants, *found.denied)) or "no rights"
    until = f", until {moment(found.expires_us)}" if found.expires_us else ""
    say(settings, f"{found.principal}: {rights}{until}", found)
