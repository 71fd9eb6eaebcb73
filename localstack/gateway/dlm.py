"""Stores policies of Data Lifecycle Manager, which moto does not know."""

from __future__ import annotations

import itertools
import json
import threading
from typing import Any
from urllib.parse import urlsplit

from localstack.emulators.moto import ACCOUNT
from localstack.gateway.server import Answer, Call


class DlmPolicies:
    """Creates, describes, updates and deletes policies, and their tags."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._policies: dict[str, dict[str, Any]] = {}

    def before(self, call: Call) -> Answer | None:
        """Answer requests to this service."""
        if call.service != "dlm":
            return None
        parts = [part for part in urlsplit(call.path).path.split("/") if part]
        asked = json.loads(call.body) if call.body else {}
        with self._lock:
            if parts == ["policies"]:
                return self._create(asked)
            policy = self._policies.get(parts[-1])
            if policy is None:
                return Answer.of_json({"message": "no such policy"}, 404)
            if parts[0] == "tags":
                policy["Tags"] |= asked.get("Tags", {})
            elif call.method == "GET":
                return Answer.of_json({"Policy": policy})
            elif call.method == "PATCH":
                policy.update(asked)
            elif call.method == "DELETE":
                del self._policies[parts[-1]]
        return Answer.of_json({})

    def after(self, call: Call, answer: Answer) -> Answer:
        """Nothing to add."""
        return answer

    def _create(self, asked: dict[str, Any]) -> Answer:
        name = f"policy-{next(self._numbers):017x}"
        arn = f"arn:aws:dlm:eu-central-1:{ACCOUNT}:policy/{name}"
        self._policies[name] = {"Tags": {}, **asked, "PolicyId": name, "PolicyArn": arn}
        return Answer.of_json({"PolicyId": name})
