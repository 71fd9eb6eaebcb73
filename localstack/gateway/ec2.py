"""Describes machines as AWS does where moto differs.

moto does not know maintenance options, of which all our machines have the default. It shows an
empty association with a public address for machines without one, and keeps the private address of
a terminated machine, which its replacement needs, unless it is told to release it.
"""

from __future__ import annotations

from dataclasses import replace

from localstack.gateway.server import Answer, Call

_OPTIONS = b"<maintenanceOptions><autoRecovery>default</autoRecovery></maintenanceOptions>"


class Machines:
    """Completes requests for machines, and their descriptions."""

    def before(self, call: Call) -> Call | None:
        """Let the addresses of new machines be released with them, which AWS does by default."""
        if call.service == "ec2" and b"NetworkInterface.1.DeviceIndex" in call.body:
            return replace(call, body=call.body + b"&NetworkInterface.1.DeleteOnTermination=true")
        return None

    def after(self, call: Call, answer: Answer) -> Answer:
        """Correct descriptions."""
        if call.service != "ec2" or b"Action=DescribeInstances&" not in call.body:
            return answer
        body = answer.body.replace(b"<association/>", b"")
        body = body.replace(b"<instanceId>", _OPTIONS + b"<instanceId>")
        return Answer(answer.status, answer.headers, body)
