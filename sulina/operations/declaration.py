"""What an operation is, and how one is declared.

An administrative operation is declared once, as a method of an ``OperationGroup``:

    class TopicOperations(OperationGroup, name="topic"):
        @operation(POST("/topics", 201), right=Right(Action.TOPICS, "{topic}"))
        async def create(self, topic: TopicText, *, partitions: Count = 0) -> TopicCreated:
            '''Create a topic.'''

Its name, ``topic.create``, follows from the group and the method. The signature gives the
arguments, the annotations their JSON, the docstring's first sentence the summary. The body is never
run: calling the method sends the operation to a broker and decodes its answer. HTTP routes, the
OpenAPI document, authorization and forwarding within a cluster all follow from the declaration; the
broker only adds a handler (``broker_containers.operations``).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property, partial
from typing import (
    Any,
    ClassVar,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    TypeVar,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
    overload,
)

from sulina.errors import ProtocolError, Refused
from sulina.model import EVERYTHING, Action
from sulina.operations.json_forms import Described
from sulina.operations.json_types import described_as

P = ParamSpec("P")
R = TypeVar("R")
Arguments = Mapping[str, Any]
Call = Callable[[str, Arguments], Awaitable[Any]]
"""Runs an operation, by its name, with JSON arguments; returns its JSON result."""
FORWARDED: Final = "_forwarded"
"""An argument that a broker adds to a call that it forwards: the receiver runs it itself."""
_PATH_ARGUMENT: Final = re.compile(r"\{(\w+)\}")


class RunsOn(Enum):
    """Which broker of a cluster runs an operation."""

    ANY_BROKER = auto()
    TOPIC_OWNER = auto()
    """The owner of the topic that the argument ``topic`` names."""
    PARTITION_OWNERS = auto()
    """The same; of a topic with partitions, any broker, which calls the owner of each."""
    LEADER = auto()


@dataclass(frozen=True, slots=True)
class Right:
    """What a caller must be allowed to do.

    ``scope`` is where: ``*``, or a template with an argument's name, such as ``/{namespace}/*``.
    Without an action any right there is enough; with an empty scope any valid token is.
    """

    action: Action | None = None
    scope: str = EVERYTHING
    instead: Action | None = None
    """Another action that is enough."""
    missing: Right | None = None
    """What is needed if the argument that ``scope`` names is not given; ``*`` if this is None."""
    subscription: str = ""
    """The argument that names the subscription to which the right may be limited."""


SIGNED_IN: Final = Right(scope="")
CLUSTER: Final = Right(Action.CLUSTER)


@dataclass(frozen=True, slots=True)
class HttpRoute:
    """A path of the HTTP door, below ``/api/v1``. 204 answers without a body."""

    verb: str
    path: str
    status: int = 200
    readable: bool = False
    """Whether GET, with the arguments of the path alone, reads what this changes."""

    @property
    def path_arguments(self) -> list[str]:
        return _PATH_ARGUMENT.findall(self.path)


GET: Final = partial(HttpRoute, "GET")
POST: Final = partial(HttpRoute, "POST")
PUT: Final = partial(HttpRoute, "PUT")
PATCH: Final = partial(HttpRoute, "PATCH", readable=True)
DELETE: Final = partial(HttpRoute, "DELETE", status=204)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an operation."""

    name: str
    described: Described
    required: bool
    nullable: bool = False
    """Whether null has a meaning of its own; otherwise null is the same as not given."""


class Declaration:
    """What is declared of an operation."""

    def __init__(
        self,
        declared: Callable[..., Any],
        http: HttpRoute,
        rights: tuple[Right, ...],
        runs_on: RunsOn,
        read_right: Right | None,
        needs_cluster: bool,
        audited: bool,
    ) -> None:
        self._declared = declared
        self.http = http
        self.rights = rights
        """All of them are needed."""
        self.runs_on = runs_on
        self.read = GET(http.path) if http.readable else None
        """Where HTTP reads what ``http`` changes."""
        self.read_right = read_right
        """What is enough for a call that changes nothing; None if that takes ``rights``, too."""
        self.needs_cluster = needs_cluster
        self._audited = audited
        self.group = ""
        self.method = declared.__name__
        self.description = inspect.cleandoc(declared.__doc__ or "")
        self.__doc__ = declared.__doc__
        self.__wrapped__ = declared

    def __set_name__(self, owner: type[OperationGroup], name: str) -> None:
        self.method = name

    @property
    def name(self) -> str:
        """What it is called over the wire: ``topic.create``."""
        return f"{self.group}.{self.method}"

    @property
    def summary(self) -> str:
        """One sentence."""
        return " ".join(self.description.partition("\n\n")[0].split())

    def only_reads(self, arguments: Arguments) -> bool:
        """Whether a call with these arguments reads what others change."""
        read = () if self.read is None else self.read.path_arguments
        return self.read is not None and arguments.keys() <= {*read, FORWARDED}

    def is_change(self, arguments: Arguments) -> bool:
        """Whether a call with these arguments is an administrative change: brokers record it."""
        return self._audited and self.http.verb != "GET" and not self.only_reads(arguments)

    @property
    def routes(self) -> list[HttpRoute]:
        """Every HTTP route of it."""
        return [self.http] if self.read is None else [self.read, self.http]

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self._declared, include_extras=True)

    @cached_property
    def _signature(self) -> inspect.Signature:
        signature = inspect.signature(self._declared)
        return signature.replace(parameters=list(signature.parameters.values())[1:])

    @cached_property
    def arguments(self) -> Mapping[str, Argument]:
        """Its arguments, by name, in the order of the declaration."""
        found: dict[str, Argument] = {}
        for name, parameter in self._signature.parameters.items():
            hint = self._hints[name]
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                assert get_origin(hint) is Unpack, self.name
                [options] = get_args(hint)
                assert is_typeddict(options), self.name
                for key, each in get_type_hints(options, include_extras=True).items():
                    found[key] = Argument(key, described_as(each), required=False, nullable=True)
            else:
                required = parameter.default is inspect.Parameter.empty
                found[name] = Argument(name, described_as(hint), required)
        return found

    @cached_property
    def result(self) -> Described:
        """What it answers."""
        return described_as(self._hints["return"])

    def decoded(self, arguments: Arguments) -> dict[str, Any]:
        """The typed arguments of a call, for a handler. Raises ``Refused``."""
        known = self.arguments
        found: dict[str, Any] = {}
        for name, value in arguments.items():
            argument = known.get(name)
            if argument is None:
                raise Refused(f"{self.name} has no argument {name!r}: {choices(known)}")
            if value is not None or argument.nullable:
                found[name] = argument.described.form.decode(value, name)
        for name, argument in known.items():
            if argument.required and name not in found:
                raise Refused(f"{name} is missing")
        return found


class Operation(Declaration, Generic[P, R]):
    """A declared operation. As an attribute of a group's instance, it is the call."""

    @overload
    def __get__(self, instance: None, owner: type) -> Operation[P, R]: ...

    @overload
    def __get__(
        self, instance: OperationGroup, owner: type
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...

    def __get__(self, instance: OperationGroup | None, owner: type) -> Any:
        return self if instance is None else partial(self._call, instance)

    async def _call(self, group: OperationGroup, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.result_of(await group.call(self.name, self.encoded(*args, **kwargs)))

    def encoded(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """The JSON arguments of a call; those that are None are left out, except for options.

        Raises ``TypeError`` for arguments that are not those of the signature, and ``Refused`` for
        unknown options.
        """
        bound = self._signature.bind(*args, **kwargs).arguments
        given: dict[str, Any] = {}
        for name, value in bound.items():
            if name in self.arguments:
                if value is not None:
                    given[name] = value
            else:
                given.update(value)  # the options, which are named by the TypedDict
        unknown = given.keys() - self.arguments.keys()
        if unknown:
            raise Refused(
                f"{self.name} has no argument {min(unknown)!r}: {choices(self.arguments)}"
            )
        return {name: self._encode(name, value) for name, value in given.items()}

    def _encode(self, name: str, value: Any) -> Any:
        return None if value is None else self.arguments[name].described.form.encode(value)

    def result_of(self, answer: Any) -> R:
        """A broker's JSON answer as the declared type. Raises ``ProtocolError``."""
        try:
            decoded: R = self.result.form.decode(answer, "the answer")
        except Refused as error:
            raise ProtocolError(
                f"the broker's answer to {self.name} can't be read ({error}): use a client of the "
                "broker's version"
            ) from None
        return decoded


class OperationGroup:
    """Operations on one kind of thing; ``call`` runs them, on a connection or in this process."""

    operations: ClassVar[tuple[Declaration, ...]] = ()

    def __init_subclass__(cls, *, name: str) -> None:
        found = [each for each in vars(cls).values() if isinstance(each, Declaration)]
        for each in found:
            each.group = name
        cls.operations = tuple(found)

    def __init__(self, call: Call) -> None:
        self.call = call


def operation(
    http: HttpRoute,
    *,
    right: Right | tuple[Right, ...],
    runs_on: RunsOn = RunsOn.ANY_BROKER,
    read_right: Right | None = None,
    needs_cluster: bool = False,
    audited: bool = True,
) -> Callable[[Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]], Operation[P, R]]:
    """Declare an operation; see ``Declaration`` for what the arguments mean.

    ``audited`` is False for an operation that changes nothing although its verb is not GET, and for
    messages, which are not administration.
    """
    rights = right if isinstance(right, tuple) else (right,)

    def declare(
        declared: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
    ) -> Operation[P, R]:
        return Operation(declared, http, rights, runs_on, read_right, needs_cluster, audited)

    return declare


def choices(known: Iterable[str]) -> str:
    """For error messages: which names there are."""
    return f"choose from {', '.join(known)}" if known else "give none"
