"""Every operation, every kind of rights, and what follows for them: made from the declarations.

Nothing here asks the broker's own code for the answer: ``allowed`` reads the declared rights.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from sulina.errors import Refused
from sulina.metadata.keys.auth import Grant
from sulina.model import Action
from sulina.operations.declaration import CLUSTER, SIGNED_IN, Argument, Declaration, Right
from sulina.operations.operation_list import OPERATIONS

TOPIC: Final = "/shop/orders"
NAMES: Final[dict[str, Any]] = {
    "topic": TOPIC,
    "dead_letter_topic": TOPIC,
    "namespace": "shop",
    "subscription": "billing",
    "subject": TOPIC,
    "type": "string",
}
"""What probes are about. Other arguments have any valid value: nothing of that name exists."""
INSIDE: Final[dict[str, tuple[str, ...]]] = {
    "*": ("everything", "topic", "subscription", "namespace", "subject"),
    "/shop/*": ("topic", "subscription", "namespace", "subject"),
    TOPIC: ("topic", "subscription", "subject"),
    f"{TOPIC}#billing": ("subscription",),
    f"{TOPIC}#other": (),
    "/other/*": (),
}
"""Scopes of grants, and which places that a right may be about are inside."""
EVERY_TOKEN: Final = ("schema.find",)
"""Operations about a subject that need no right on it: whoever has a schema may ask for its id."""
LOOKS: Final = (Action.LOOKUP, Action.PRODUCE, Action.CONSUME, Action.TOPICS)


@dataclass(frozen=True, slots=True)
class Probe:
    """A call of an operation."""

    operation: str
    arguments: Mapping[str, Any]

    @property
    def declared(self) -> Declaration | None:
        return OPERATIONS.get(self.operation)

    @property
    def resource(self) -> str:
        """What audit records of it name."""
        first = next(iter(self.declared.arguments), "") if self.declared else ""
        value = self.arguments.get(first, "")
        return value if isinstance(value, str) else ""

    @property
    def changes(self) -> bool:
        return self.declared is not None and self.declared.is_change(self.arguments)


@dataclass(frozen=True, slots=True)
class Role:
    """A principal with one grant, or none, and perhaps one deny rule."""

    grant: Grant | None = None
    denied: Grant | None = None

    @property
    def rules(self) -> list[str]:
        denied = [] if self.denied is None else [f"deny:{self.denied}"]
        return [*([] if self.grant is None else [str(self.grant)]), *denied]

    def __str__(self) -> str:
        return " but ".join(self.rules) or "nothing"


def probes() -> Iterator[Probe]:
    """Every operation, with and without each argument that decides about the right."""
    for name, declared in OPERATIONS.items():
        required = [each for each, argument in declared.arguments.items() if argument.required]
        optional = [each for each in declared.arguments if each not in required]
        read = [] if declared.read is None else declared.read.path_arguments
        deciding = [each for each in optional if each in _named_by(declared)]
        changed = [each for each in optional if each not in (*read, *deciding)][:1]
        variants = [required + (deciding or (changed if read else []))]
        if deciding:
            variants.append(required + (changed if read else []))
        if read:
            variants.append(read)
        for variant in variants:
            given = {each: _value(declared.arguments[each]) for each in variant}
            if "topic" in given and "subject" in given:
                given["subject"] = "of no schema"  # nothing is bound: who sees what stays the same
            yield Probe(name, given)


def roles() -> Iterator[Role]:
    """Each action within each scope, allowed alone, and denied to one who may do everything."""
    yield Role()
    everything = Grant(Action.ADMIN, "*")
    for action in Action:
        for scope in INSIDE:
            if action is Action.SCHEMAS and "#" in scope:
                continue  # any text is a subject
            with suppress(Refused):
                rule = Grant.parse(f"{action}:{scope}")
                yield Role(rule)
                if scope in ("*", "/shop/*"):
                    yield Role(everything, rule)


def allowed(role: Role, probe: Probe) -> bool:
    """What the declaration says."""
    declared = probe.declared
    if declared is None:
        return _has(role, CLUSTER, probe)
    rights = declared.rights
    if declared.read_right is not None and declared.only_reads(probe.arguments):
        rights = (declared.read_right,)
    if "subject" in probe.arguments and rights == (SIGNED_IN,) and declared.name not in EVERY_TOKEN:
        # As the group of operations on schemas says: any right on the subject, unless it is hidden.
        looking, managing = Right(None, "{subject}"), Right(Action.SCHEMAS, "{subject}")
        return not _covers(role.denied, Action.LOOKUP, "subject") and (
            _has(role, looking, probe) or _has(role, managing, probe)
        )
    return all(_has(role, right, probe) for right in rights)


def _has(role: Role, right: Right, probe: Probe) -> bool:
    if not right.scope:
        return role.denied != Grant(Action.ADMIN, "*")
    place = _place(right, probe.arguments)
    if place is None:
        return right.missing is not None and _has(role, right.missing, probe)
    looking = right.action is None
    if looking and _covers(role.denied, Action.LOOKUP, place):
        return False
    actions = LOOKS if right.action is None else (right.action, right.instead)
    return any(
        action is not None
        and not _covers(role.denied, action, place)
        and _covers(role.grant, action, place, looking=looking)
        for action in actions
    )


def _covers(rule: Grant | None, action: Action, place: str, *, looking: bool = False) -> bool:
    if rule is None or rule.action not in (action, Action.ADMIN):
        return False
    if looking and place in ("topic", "subject") and rule.scope.startswith(f"{TOPIC}#"):
        return True  # who may use a subscription may look its topic up
    if action is Action.SCHEMAS and rule.action is Action.ADMIN:
        return rule.scope == "*"  # subjects belong to no namespace
    return place in INSIDE[rule.scope]


def _place(right: Right, arguments: Mapping[str, Any]) -> str | None:
    """What a right is about: a key of ``INSIDE``; None if the argument is missing."""
    found = re.search(r"\{(\w+)\}", right.scope)
    if found is None:
        return "everything"
    if found[1] not in arguments:
        return "everything" if right.missing is None else None
    if arguments.get(right.subscription):
        return "subscription"
    return "topic" if found[1].endswith("topic") else found[1]


def _named_by(declared: Declaration) -> set[str]:
    rights = [*declared.rights, *([declared.read_right] if declared.read_right else [])]
    return {name for right in rights for name in re.findall(r"\{(\w+)\}", right.scope)}


def _value(argument: Argument) -> Any:
    named: dict[str, Any] = {}
    return NAMES.get(argument.name) or example(argument.described.schema(named), named)


def example(schema: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    """A value that a JSON schema describes."""
    if "$ref" in schema:
        return example(named[schema["$ref"].rpartition("/")[2]], named)
    if "oneOf" in schema:
        return example(schema["oneOf"][0], named)
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    kind = schema.get("type", "string")
    match kind[0] if isinstance(kind, list) else kind:
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return True
        case "array":
            return [example(schema["items"], named)]
        case "object":
            wanted = schema.get("required", ())
            return {name: example(schema["properties"][name], named) for name in wanted}
        case _:
            return "probe"
