"""The rights of a gRPC caller, by the token in its metadata: ``authorization: Bearer ...``.

No other metadata grants rights; in particular not the header by which Danube's brokers recognise
each other, which any client can send.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import unquote

import grpc

from broker_containers.audit.trail import AuditTrail
from broker_containers.security.access import ANYONE, USING, Access, Caller, of_topic
from broker_containers.security.authority import Authority
from broker_containers.security.bearer import bearer_token
from sulina.errors import Refused
from sulina.model import Action
from sulina.names import TopicName

Context = grpc.aio.ServicerContext[Any, Any]
Metadata = Iterable[tuple[str, str | bytes]] | None
_HEADER: Final = "authorization"


class Callers:
    """Checks callers. Raises ``Unauthenticated`` and ``Denied``; never waits."""

    def __init__(self, authority: Authority, audit: AuditTrail, door: str) -> None:
        self._authority = authority
        self._audit = audit
        self._door = door
        self.on = authority.on
        """Whether callers need tokens."""

    def access_with(self, metadata: Metadata) -> Access:
        """What a caller with this metadata may do."""
        return self._authority.access(token_in(metadata)) if self.on else ANYONE

    def caller(self, context: Context) -> Caller:
        """Who calls. Raises ``Unauthenticated``."""
        address = _address(context)
        if not self.on:
            return Caller(ANYONE, self._door, address)
        access = self._audit.sign_in(
            self._authority, token_in(context.invocation_metadata()), self._door, address
        )
        return Caller(access, self._door, address)

    def refused(self, context: Context, token: str, error: Refused) -> None:
        """Record that a caller has no valid token."""
        self._audit.refused_token(token, self._door, _address(context), error)

    def limited_as(self, context: Context) -> str:
        """The principal whose quotas apply to the caller; empty for none."""
        return self.caller(context).access.limited_as

    def check_topic(
        self,
        context: Context,
        action: Action | None,
        topic: TopicName | str,
        subscription: str = "",
    ) -> None:
        """Raise unless the caller has the right on a topic, or on a subscription of it."""
        if self.on:
            operation = Action.LOOKUP if action is None else action
            need = of_topic(action, topic, subscription)
            caller = self.caller(context)
            self._audit.check(caller, need, operation)
            USING.set(caller)  # every call has a context of its own

    def known(self, context: Context) -> bool:
        """Whether the caller has a valid token, or needs none."""
        try:
            self.caller(context)
        except Refused:
            return False
        return True

    def check_token(self, context: Context, token: str) -> None:
        """Raise unless a token is valid."""
        self._audit.sign_in(self._authority, token, self._door, _address(context))


def _address(context: Context) -> str:
    return unquote(context.peer().partition(":")[2])  # such as ipv4:127.0.0.1:1234


def token_in(metadata: Metadata) -> str:
    """The token in a call's metadata; empty without one."""
    for key, value in metadata or ():
        if key == _HEADER:
            return bearer_token(value if isinstance(value, str) else value.decode(errors="replace"))
    return ""
