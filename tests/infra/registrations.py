"""What the program tells Pulumi's engine beyond inputs: dependencies, options, and secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from pulumi.runtime.mocks import MockMonitor, Mocks

_SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
"""The key that marks values with a special meaning for the engine."""
_SECRET: Final = "1b47061264138c4ac30d75fd1eb44270"


class RegistrationMonitor(MockMonitor):
    """Remembers each registration; a resource is identified by its type and name."""

    def __init__(self, mocks: Mocks) -> None:
        super().__init__(mocks)
        self.registered: dict[tuple[str, str], dict[str, Any]] = {}
        self.exposed: list[str] = []
        """The resources with a private key in plain text, which the state would contain."""

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - gRPC's name
        """Called for each resource once everything that it depends on is registered."""
        response = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        key = (request.type, request.name)
        if request.type != "pulumi:pulumi:Stack":
            assert key not in self.registered, key
            self.registered[key] = {
                "urn": response.urn,
                "parent": request.parent,
                "depends_on": list(request.dependencies),
                "uses": {
                    name: list(found.urns) for name, found in request.propertyDependencies.items()
                },
                "options": {
                    "protect": request.protect,
                    "delete_before_replace": request.deleteBeforeReplace
                    if request.deleteBeforeReplaceDefined
                    else None,
                    "ignore_changes": list(request.ignoreChanges),
                    "replace_on_changes": list(request.replaceOnChanges),
                    "replacement_trigger": MessageToDict(request.replacement_trigger) or "",
                    "minutes": MessageToDict(request.customTimeouts),
                    "secret_outputs": list(request.additionalSecretOutputs),
                },
            }
        self._look_for_keys(response.urn, request.object)
        return response

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802 - gRPC's name
        """Called for each component, and for the stack."""
        self._look_for_keys(request.urn, request.outputs)
        return super().RegisterResourceOutputs(request)  # type: ignore[no-untyped-call]

    def _look_for_keys(self, urn: str, values: Any) -> None:
        if any("PRIVATE KEY" in text for text in _plain_texts(MessageToDict(values))):
            self.exposed.append(urn)


def _plain_texts(value: Any) -> Iterator[str]:
    """All texts in a value, except those in secrets."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _plain_texts(each)
    elif isinstance(value, dict) and value.get(_SIGNATURE) != _SECRET:
        for each in value.values():
            yield from _plain_texts(each)
