"""Lets an EMR Serverless application wait for its first job, as AWS does.

moto starts an application as soon as it is created, and then refuses to delete it.
"""

from __future__ import annotations

import json

from localstack.deployment.account import EmulatedAccount
from localstack.gateway.server import Answer, Call


class EmrApplications:
    """Stops each new application, and shows it as created."""

    def __init__(self, moto: EmulatedAccount) -> None:
        self._client = moto.client("emr-serverless")

    def before(self, call: Call) -> Answer | None:
        """Leave requests to moto."""
        return None

    def after(self, call: Call, answer: Answer) -> Answer:
        """Correct the state."""
        if call.service != "emr-serverless" or answer.status != 200:
            return answer
        said = json.loads(answer.body or b"{}")
        if call.method == "POST" and call.path == "/applications":
            self._client.stop_application(applicationId=said["applicationId"])
        if said.get("application", {}).get("state") == "STOPPED":
            said["application"]["state"] = "CREATED"
            return Answer(answer.status, answer.headers, json.dumps(said).encode())
        return answer
