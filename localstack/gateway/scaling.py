"""Stores the tags of Application Auto Scaling, which moto does not know."""

from __future__ import annotations

import json
import threading

from localstack.gateway.server import Answer, Call


class ScalingTags:
    """Answers the operations on tags; a target is known by its ARN."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tags: dict[str, dict[str, str]] = {}

    def before(self, call: Call) -> Answer | None:
        """Answer the operations on tags."""
        if call.service != "application-autoscaling" or not call.operation.endswith("Resource"):
            return None
        asked = json.loads(call.body)
        with self._lock:
            tags = self._tags.setdefault(asked["ResourceARN"], {})
            tags |= asked.get("Tags", {})
            for name in asked.get("TagKeys", ()):
                tags.pop(name, None)
            return Answer.of_json({"Tags": tags} if call.operation.startswith("List") else {})

    def after(self, call: Call, answer: Answer) -> Answer:
        """Remember the tags that a target is registered with."""
        if call.operation == "RegisterScalableTarget" and answer.status == 200:
            arn = json.loads(answer.body).get("ScalableTargetARN")
            with self._lock:
                self._tags.setdefault(arn, {}).update(json.loads(call.body).get("Tags") or {})
        return answer
