"""Stores the alert managers of Managed Prometheus, which moto does not have."""

from __future__ import annotations

import json
import re
import threading
from typing import Final

from localstack.gateway.server import Answer, Call

_PATH: Final = re.compile(r"/workspaces/([^/]+)/alertmanager/definition/?")
_ACTIVE: Final = {"statusCode": "ACTIVE"}


class AlertManagers:
    """Answers the operations on definitions; a workspace has one at most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._definitions: dict[str, str] = {}

    def before(self, call: Call) -> Answer | None:
        """Answer requests for definitions."""
        found = _PATH.fullmatch(call.path.partition("?")[0]) if call.service == "aps" else None
        if found is None:
            return None
        workspace = found[1]
        with self._lock:
            if call.method in ("POST", "PUT"):
                self._definitions[workspace] = json.loads(call.body)["data"]
                return Answer.of_json({"status": _ACTIVE}, 202)
            if workspace not in self._definitions:
                headers = {"X-Amzn-ErrorType": "ResourceNotFoundException"}
                return Answer(404, headers, b'{"message": "there is no definition"}')
            if call.method == "DELETE":
                del self._definitions[workspace]
                return Answer.of_json({}, 202)
            about = {"status": _ACTIVE, "data": self._definitions[workspace]}
            return Answer.of_json({"alertManagerDefinition": {**about, "createdAt": 0}})

    def after(self, call: Call, answer: Answer) -> Answer:
        """Nothing to add."""
        return answer
