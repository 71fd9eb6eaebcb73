"""What a member answered, as JSON: the message itself, or the error that it tells."""

from __future__ import annotations

import json
from typing import Any

from sulina.metadata.etcd import failures
from sulina.metadata.etcd.codec import Json
from sulina.metadata.etcd.failures import Failure
from sulina.metadata.etcd.settings import Endpoint


def read(content: bytes, endpoint: Endpoint) -> Json:
    """The message in ``content``. Streams wrap theirs, and may tell errors with status 200."""
    try:
        answer: Any = json.loads(content)
        if "error" not in answer:
            found: Json = answer.get("result", answer)
            return found
    except (ValueError, TypeError, AttributeError) as error:
        reason = f"{endpoint} answered what etcd never would ({error})"
        raise Failure(reason, may_have_happened=True) from None
    raise failures.of_answer(answer, endpoint)
