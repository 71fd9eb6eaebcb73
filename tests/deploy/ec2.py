"""Shows the maintenance options of machines, which moto does not know.

All machines of the program have the default.
"""

from __future__ import annotations

from urllib.parse import parse_qs

from tests.deploy.gateway import Answer, Call

_OPTIONS = b"<maintenanceOptions><autoRecovery>default</autoRecovery></maintenanceOptions>"


class MachineMaintenance:
    """Completes descriptions of machines."""

    def before(self, call: Call) -> Answer | None:
        """Leave requests to moto."""
        return None

    def after(self, call: Call, answer: Answer) -> Answer:
        """Add the options to each machine."""
        if call.service != "ec2" or answer.status != 200:
            return answer
        if parse_qs(call.body.decode()).get("Action") != ["DescribeInstances"]:
            return answer
        body = answer.body.replace(b"<instanceId>", _OPTIONS + b"<instanceId>")
        return Answer(answer.status, answer.headers, body)
