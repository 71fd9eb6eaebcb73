"""The rights of a gRPC caller: by the token in its metadata, ``authorization: Bearer ...``, or
without one by its certificate.

No other metadata grants rights; in particular not the header by which Danube's brokers recognise
each other, which any client can send.
"""

from __future__ import annotations

from broker_containers.audit.trail import AuditTrail
from broker_containers.doors.grpc_shared.call import Call
from broker_containers.security.access import ANYONE, USING, Access, Caller, of_topic
from broker_containers.security.authority import Authority
from broker_containers.security.certificate import ClientCertificate
from sulina.errors import Refused
from sulina.model import Action
from sulina.names import TopicName

Context = Call


class Callers:
    """Checks callers. Raises ``Unauthenticated`` and ``Denied``; never waits."""

    def __init__(self, authority: Authority, audit: AuditTrail, door: str) -> None:
        self._authority = authority
        self._audit = audit
        self._door = door
        self.on = authority.on
        """Whether callers need tokens."""

    def access_of(self, context: Context) -> Access:
        """What a caller may do; nothing is recorded."""
        return self._authority.access(*self.identity(context))

    def identity(self, context: Context) -> tuple[str, ClientCertificate | None]:
        """By what a caller is identified: its token, or its certificate."""
        head = context.head
        return self._authority.identity(head.token, context.certificate, head.vouched)

    def own_token(self) -> str:
        """What this broker presents to others."""
        return self._authority.own_token()

    def caller(self, context: Context) -> Caller:
        """Who calls. Raises ``Unauthenticated``."""
        address = context.peer()
        if not self.on:
            return Caller(ANYONE, self._door, address)
        token, certificate = self.identity(context)
        access = self._audit.sign_in(
            self._authority, token, self._door, address, certificate=certificate
        )
        return Caller(access, self._door, address)

    def refused(self, context: Context, token: str, error: Refused) -> None:
        """Record that a caller has no valid token."""
        self._audit.refused_token(token, self._door, context.peer(), error)

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
        """Raise unless the caller has the right on a topic, or on a subscription of it.

        For calls that run as a task: what the task does, it does for this caller.
        """
        if self.on:
            USING.set(self.checked(context, action, topic, subscription))

    def checked(
        self,
        context: Context,
        action: Action | None,
        topic: TopicName | str,
        subscription: str = "",
    ) -> Caller:
        """The caller, who has the right; for calls that are answered without a task."""
        operation = Action.LOOKUP if action is None else action
        caller = self.caller(context)
        self._audit.check(caller, of_topic(action, topic, subscription), operation)
        return caller

    def known(self, context: Context) -> bool:
        """Whether the caller has a valid token, or needs none."""
        try:
            self.caller(context)
        except Refused:
            return False
        return True

    def check_token(self, context: Context, token: str) -> None:
        """Raise unless a token is valid."""
        self._audit.sign_in(self._authority, token, self._door, context.peer())
