"""Administrative methods about tokens and grants, for every door that offers ``Admin``."""

from __future__ import annotations

from typing import Any

from broker_containers.arguments import Arguments, Method, number, text
from broker_containers.security.authority import Authority
from broker_containers.security.records import Rights, SecurityRecords
from broker_containers.security.role_methods import binding_row
from sulina.errors import Refused
from sulina.metadata.keys.auth import Grant, PrincipalRecord, TokenRecord


def security_methods(records: SecurityRecords, authority: Authority) -> dict[str, Method]:
    """The methods, for ``Admin`` to offer. Every broker can answer them for the whole cluster.

    They work also where nobody is asked for a token yet, so that all is prepared when that begins;
    ``enforced`` says whether it has.
    """

    async def token_create(arguments: Arguments) -> Any:
        made = await records.create_token(
            text(arguments, "principal"),
            _grants(arguments),
            number(arguments, "seconds", 0),
            _note(arguments),
        )
        await authority.caught_up()  # whoever gets the token can use it here at once
        row = _token(made.id, made.record)
        return {**row, "token": made.token, "enforced": authority.on}

    async def token_list(_: Arguments) -> Any:
        return [_token(token_id, found) for token_id, found in (await records.tokens()).items()]

    async def token_revoke(arguments: Arguments) -> Any:
        await records.revoke_token(text(arguments, "id"))
        await authority.caught_up()
        return {}

    async def principal_list(_: Arguments) -> Any:
        return [_rights(each) for each in await records.rights()]

    async def principal_grant(arguments: Arguments) -> Any:
        name = text(arguments, "principal")
        made = await records.grant(name, _grants(arguments, needed=True))
        await authority.caught_up()
        return _principal(name, made)

    async def principal_withdraw(arguments: Arguments) -> Any:
        name = text(arguments, "principal")
        left = await records.withdraw(name, _grants(arguments, needed=True))
        await authority.caught_up()
        return _principal(name, left)

    async def principal_delete(arguments: Arguments) -> Any:
        await records.delete(text(arguments, "principal"))
        await authority.caught_up()
        return {}

    return {
        "token.create": token_create,
        "token.list": token_list,
        "token.revoke": token_revoke,
        "principal.list": principal_list,
        "principal.grant": principal_grant,
        "principal.withdraw": principal_withdraw,
        "principal.delete": principal_delete,
    }


def _grants(arguments: Arguments, *, needed: bool = False) -> list[Grant]:
    given = arguments.get("grants") or []
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise Refused(f"grants is a list of texts, not {given!r}")
    if needed and not given:
        raise Refused("grants is missing: name at least one, produce:/default/orders for example")
    return [Grant.parse(each) for each in given]


def _note(arguments: Arguments) -> str:
    note = arguments.get("note") or ""
    if not isinstance(note, str) or len(note) > 1000:
        raise Refused("note is a text of at most 1000 characters")
    return note


def _token(token_id: str, found: TokenRecord) -> dict[str, Any]:
    return {
        "id": token_id,
        "principal": found.principal,
        "created_us": found.created_us,
        "expires_us": found.expires_us or None,
        "note": found.note,
    }


def _principal(name: str, found: PrincipalRecord) -> dict[str, Any]:
    return {
        "principal": name,
        "grants": [str(grant) for grant in found.grants],
        "created_us": found.created_us or None,
    }


def _rights(found: Rights) -> dict[str, Any]:
    own = _principal(found.principal, found.record or PrincipalRecord())
    bound = [
        {**binding_row(each.binding), "grants": [str(grant) for grant in each.grants]}
        for each in found.bound
    ]
    return {**own, "bindings": bound}
