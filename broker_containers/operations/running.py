"""Looks operations up, authorizes, forwards and runs them: the same for every door."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import count
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from broker_containers.audit.trail import AuditTrail
from broker_containers.security.access import ACTING, CREATING_FOR, USING, Access, Caller, Need
from broker_containers.security.errors import Denied
from sulina.errors import Refused, SulinaError
from sulina.model import EVERYTHING
from sulina.operations.client import AdminClient
from sulina.operations.declaration import (
    CLUSTER,
    FORWARDED,
    Arguments,
    Declaration,
    Operation,
    Right,
)
from sulina.operations.messages import MessageOperations
from sulina.operations.operation_list import OPERATIONS
from sulina.runtime.deadline import within
from sulina.runtime.logs import log_fields, logged_with
from sulina.runtime.seam import Clock
from sulina.runtime.traces import span

_log = logging.getLogger(__name__)

_HANDLES: Final = "__handles__"
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_OTHERS_SECONDS: Final = 3.0
"""More than brokers wait for their own parts, so that one without metadata is not left out."""
_FOR_BROKER: Final[ContextVar[bool]] = ContextVar("for_broker", default=False)
"""Whether an operation runs for another broker, which adds up what several answer."""

P = ParamSpec("P")
R = TypeVar("R")
Owner = TypeVar("Owner")
_Method = Callable[Concatenate[Owner, P], Coroutine[Any, Any, R]]


def handles(operation: Operation[P, R]) -> Callable[[_Method[Owner, P, R]], _Method[Owner, P, R]]:
    """Mark a method as the handler of an operation; it has the operation's signature."""

    def mark(handler: _Method[Owner, P, R]) -> _Method[Owner, P, R]:
        setattr(handler, _HANDLES, operation)
        return handler

    return mark


class NeedsCluster(Refused):
    """The operation is one of clusters, and this is a single broker."""


class OperationRouter(Protocol):
    """Forwards operations that another broker of the cluster must run."""

    async def broker_for(self, operation: Declaration, arguments: Arguments) -> str | None:
        """The broker that must run the operation; None if it is this one."""
        ...

    async def call(self, broker: str, name: str, arguments: Arguments) -> Any:
        """Run the operation on another broker."""
        ...

    def others(self) -> list[str]:
        """The other brokers that run."""
        ...


class Operations:
    """The operations that this broker serves. Handlers are added before its ports open."""

    def __init__(self, router: OperationRouter | None = None) -> None:
        """Without a ``router`` every operation runs here."""
        self._router = router
        self._audit: AuditTrail | None = None
        self._numbers = count(1)
        self._handlers: dict[str, Callable[..., Awaitable[Any]]] = {}
        self.client: Final = AdminClient(self.run)
        """Typed calls from within this process; in a cluster they reach the right broker."""

    def serve(self, *handlers: object) -> None:
        """Add every method of ``handlers`` that is marked with ``handles``."""
        for each in handlers:
            for name in dir(type(each)):
                operation = getattr(getattr(type(each), name), _HANDLES, None)
                if operation is not None:
                    self.handle(operation, getattr(each, name))

    def handle(self, operation: Operation[P, R], handler: Callable[P, Awaitable[R]]) -> None:
        """Let ``handler`` run ``operation``, in place of an earlier one."""
        self._handlers[operation.name] = handler

    def record_in(self, audit: AuditTrail) -> None:
        """Record changes and refusals in ``audit``."""
        self._audit = audit

    def serves(self, operation: Declaration) -> bool:
        """Whether this broker can run it; a single broker lacks those that need a cluster."""
        return operation.name in self._handlers

    async def run_as(self, caller: Caller, name: str, arguments: Arguments) -> Any:
        """Run an operation for a caller: JSON in, JSON out. Raises ``Denied``, and as ``run``."""
        return await self.act_as(caller, name, arguments, partial(self.run, name, arguments))

    async def act_as(
        self, caller: Caller, name: str, arguments: Arguments, act: Callable[[], Awaitable[R]]
    ) -> R:
        """Do what amounts to an operation, if the caller has its rights; raises ``Denied``.

        Every administrative call passes through here, whichever door it comes in by: refusals and
        changes are recorded. Raises ``Unavailable`` for a change that can't be recorded.
        """
        operation = OPERATIONS.get(name)
        resource = "" if operation is None else _resource(operation, arguments)
        with self._logged(caller, name, resource):
            return await self._act(caller, name, arguments, act, resource)

    @contextmanager
    def _logged(self, caller: Caller, name: str, resource: str) -> Iterator[None]:
        """Name the call in whatever is logged meanwhile, and log how it ended."""
        request = log_fields().get("request") or f"{next(self._numbers)}"
        about = {"resource": resource, "principal": caller.access.principal, "door": caller.door}
        with logged_with(request=request, operation=name), span(name, **about):
            try:
                yield
            except SulinaError as error:
                _log.info("%s of %s by %s: %s", name, resource, caller.access.principal, error)
                raise
            _log.info("%s of %s by %s: done", name, resource, caller.access.principal)

    async def _act(
        self,
        caller: Caller,
        name: str,
        arguments: Arguments,
        act: Callable[[], Awaitable[R]],
        resource: str,
    ) -> R:
        operation, audit = OPERATIONS.get(name), self._audit
        before, user = ACTING.set(caller.access), USING.set(caller)
        try:
            authorize(caller.access, name, arguments)
            if audit is None or operation is None or not operation.is_change(arguments):
                return await act()
            if FORWARDED in arguments:
                audit.forwarded(caller, name, resource)
                return await act()
            return await audit.act(caller, name, resource, arguments, act)
        except Denied as error:  # also of a handler, which may know of more rights
            if audit is not None:
                audit.refused(caller, name, resource, error)
            raise
        finally:
            ACTING.reset(before)
            USING.reset(user)

    async def run(self, name: str, arguments: Arguments) -> Any:
        """Run an operation, here or where it must run: JSON in, JSON out. Checks no rights.

        Raises ``Refused`` for an unknown name and for wrong arguments, ``NeedsCluster``, and what
        the handler raises.
        """
        operation = OPERATIONS.get(name)
        if operation is None:
            raise Refused(f"there is no operation {name!r}: choose from {', '.join(OPERATIONS)}")
        handler = self._handlers.get(name)
        if handler is None:
            raise NeedsCluster(f"{name} needs a cluster, and this is a single broker")
        forwarded = FORWARDED in arguments
        creating_for = CREATING_FOR.get()
        if forwarded:
            if isinstance(named := arguments[FORWARDED], str):
                creating_for = named
            arguments = {key: value for key, value in arguments.items() if key != FORWARDED}
            if self._router is not None:
                # It may have been sent here before this broker has heard that it is the owner.
                await self._router.broker_for(operation, arguments)
        elif self._router is not None:
            broker = await self._router.broker_for(operation, arguments)
            if broker is not None:
                return visible(await self._router.call(broker, name, arguments), ACTING.get())
        before, created = _FOR_BROKER.set(forwarded), CREATING_FOR.set(creating_for)
        try:
            result = await handler(**operation.decoded(arguments))
        finally:
            _FOR_BROKER.reset(before)
            CREATING_FOR.reset(created)
        return visible(operation.result.form.encode(result), ACTING.get())

    @property
    def asked_by_broker(self) -> bool:
        """Whether the operation that runs was sent by another broker, which adds answers up."""
        return _FOR_BROKER.get()

    def others(self) -> list[str]:
        """The other brokers that run; none to a broker that asks."""
        return [] if self._router is None or _FOR_BROKER.get() else self._router.others()

    async def of_others(
        self, operation: Operation[P, R], arguments: Arguments, clock: Clock
    ) -> list[R]:
        """What the other brokers answer to the same operation; none to a broker that asks.

        A broker that fails, or takes more than three seconds, is left out.
        """
        router = self._router
        if router is None or _FOR_BROKER.get():
            return []

        async def ask(broker: str) -> R | None:
            try:
                call = router.call(broker, operation.name, arguments)
                return operation.result_of(await within(clock, _OTHERS_SECONDS, call))
            except (SulinaError, TimeoutError):
                return None

        found = await asyncio.gather(*map(ask, router.others()))
        return [each for each in found if each is not None]


def authorize(access: Access, name: str, arguments: Arguments) -> None:
    """Raise ``Denied`` unless the caller may run this operation with these arguments."""
    if FORWARDED in arguments and not access.is_root:
        raise Denied(f"only brokers may send {FORWARDED}: leave it out")
    if FORWARDED in arguments and name == MessageOperations.publish.name:
        return  # the only way to write what only brokers write
    operation = OPERATIONS.get(name)
    needs = [_need(CLUSTER, arguments)] if operation is None else needs_of(operation, arguments)
    for need in needs:
        access.check(need)


def needs_of(operation: Declaration, arguments: Arguments) -> list[Need]:
    """What a caller needs to be allowed to run an operation with these arguments."""
    rights = operation.rights
    if operation.read_right is not None and operation.only_reads(arguments):
        rights = (operation.read_right,)
    return [_need(right, arguments) for right in rights]


def _resource(operation: Declaration, arguments: Arguments) -> str:
    """What an operation is about: the value of its first argument."""
    value = arguments.get(next(iter(operation.arguments), ""), "")
    return value if isinstance(value, str) else ""


def _need(right: Right, arguments: Arguments) -> Need:
    """Arguments are used as they were sent: the handler checks what they say."""
    scope, placeholder = right.scope, _PLACEHOLDER.search(right.scope)
    if placeholder is not None:
        value = arguments.get(placeholder[1])
        if isinstance(value, str) and value:
            scope = scope.replace(placeholder[0], value)
        elif right.missing is not None:
            return _need(right.missing, arguments)
        else:
            scope = EVERYTHING  # only a right to everything covers a call that names nothing
    subscription = arguments.get(right.subscription)
    return Need(
        right.action, scope, right.instead, subscription if isinstance(subscription, str) else ""
    )


def visible(result: Any, access: Access) -> Any:
    """A result without the topics and subscriptions in its lists that the caller may not see.

    Here, not in the handlers: the owner of a topic does not know for whom a call was forwarded.
    """
    if access.sees_all:
        return result
    if isinstance(result, dict):
        return {key: visible(value, access) for key, value in result.items()}
    if not isinstance(result, list):
        return result
    return [visible(each, access) for each in result if _may_see(each, access)]


def _may_see(row: Any, access: Access) -> bool:
    match row:
        case {"topic": str(topic), "subscription": str(subscription)}:
            return access.sees(topic, subscription)
        case {"topic": str(topic)}:
            return access.sees(topic)
        case _:
            return True
