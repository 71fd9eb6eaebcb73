"""Accepts changes of an Athena workgroup, which moto does not know.

The only one of ours is whether the workgroup is deleted with its contents, which the plugin keeps.
"""

from __future__ import annotations

from localstack.gateway.server import Answer, Call


class Workgroups:
    """Answers ``UpdateWorkGroup``."""

    def before(self, call: Call) -> Answer | None:
        """Change nothing."""
        return Answer.of_json({}) if call.operation == "UpdateWorkGroup" else None

    def after(self, call: Call, answer: Answer) -> Answer:
        """Nothing to add."""
        return answer
