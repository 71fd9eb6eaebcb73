"""Requests and answers in etcd's JSON: bytes in base64, numbers as text, defaults omitted."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from sulina.metadata.store import (
    Absent,
    Compare,
    Delete,
    DeletePrefix,
    Event,
    EventKind,
    Get,
    GetPrefix,
    KeyValue,
    ModRevisionIs,
    Op,
    Present,
    Put,
    Response,
    TxnResult,
    ValueIs,
)

Json = dict[str, Any]


class EtcdCodec:
    """Translates requests and answers, with every key below ``root``."""

    def __init__(self, root: str) -> None:
        self._root = root.encode()

    def one(self, key: str) -> Json:
        """The range of a single key."""
        return {"key": self._key(key)}

    def below(self, prefix: str, after: str | None = None) -> Json:
        """The range of keys that start with ``prefix``, behind ``after``."""
        first = self._root + prefix.encode()
        # UTF-8 has no byte 255, so the last byte can be incremented. A single zero means no end.
        end = first[:-1] + bytes([first[-1] + 1]) if first else b"\0"
        if after is not None:
            first = max(first, self._root + after.encode() + b"\0")
        return {"key": _text(first or b"\0"), "range_end": _text(end)}

    def put(self, op: Put) -> Json:
        """A request to write a key."""
        request: Json = {"key": self._key(op.key), "value": _text(op.value)}
        if op.lease:
            request["lease"] = str(op.lease)
        return request

    def txn(self, compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op]) -> Json:
        """A request to run a transaction."""
        return {
            "compare": [self._compare(compare) for compare in compares],
            "success": [self._op(op) for op in then],
            "failure": [self._op(op) for op in otherwise],
        }

    def txn_result(
        self, answer: Mapping[str, Any], then: Sequence[Op], otherwise: Sequence[Op]
    ) -> TxnResult:
        """The answer to a transaction."""
        succeeded = bool(answer.get("succeeded", False))
        ops = then if succeeded else otherwise
        answers = answer.get("responses", ())
        responses = tuple(self._response(op, each) for op, each in zip(ops, answers, strict=True))
        return TxnResult(succeeded, revision_of(answer), responses)

    def items(self, answer: Mapping[str, Any]) -> list[KeyValue]:
        """The keys in the answer to a range request."""
        return [self._item(kv) for kv in answer.get("kvs", ())]

    def event(self, raw: Mapping[str, Any]) -> Event:
        """A change reported by a watch."""
        kv = raw["kv"]
        kind = EventKind.DELETE if raw.get("type") == "DELETE" else EventKind.PUT
        value = b64decode(kv.get("value", ""))
        return Event(kind, self._name(kv["key"]), value, int(kv["mod_revision"]))

    def _key(self, key: str) -> str:
        return _text(self._root + key.encode())

    def _name(self, text: str) -> str:
        # Other programs may have keys that are not text; they are listed but cannot be requested.
        return b64decode(text)[len(self._root) :].decode(errors="surrogateescape")

    def _item(self, kv: Mapping[str, Any]) -> KeyValue:
        return KeyValue(
            self._name(kv["key"]),
            b64decode(kv.get("value", "")),
            int(kv["create_revision"]),
            int(kv["mod_revision"]),
            int(kv["version"]),
            int(kv.get("lease", 0)),
        )

    def _compare(self, compare: Compare) -> Json:
        condition: Json = {"key": self._key(compare.key), "result": "EQUAL"}
        match compare:
            case Absent():
                condition |= {"target": "VERSION", "version": "0"}
            case Present():
                condition |= {"target": "VERSION", "version": "0", "result": "GREATER"}
            case ModRevisionIs(_, revision):
                condition |= {"target": "MOD", "mod_revision": str(revision)}
            case ValueIs(_, value):
                condition |= {"target": "VALUE", "value": _text(value)}
        return condition

    def _op(self, op: Op) -> Json:
        match op:
            case Put():
                return {"request_put": self.put(op)}
            case Delete(key):
                return {"request_delete_range": self.one(key)}
            case DeletePrefix(prefix):
                return {"request_delete_range": self.below(prefix)}
            case Get(key):
                return {"request_range": self.one(key)}
            case GetPrefix(prefix, limit):
                return {"request_range": self.below(prefix) | {"limit": str(limit)}}

    def _response(self, op: Op, answer: Mapping[str, Any]) -> Response:
        match op:
            case Put():
                return Response()
            case Delete() | DeletePrefix():
                return Response(deleted=deleted_by(answer.get("response_delete_range", {})))
            case Get():
                found = self.items(answer.get("response_range", {}))
                return Response(item=found[0] if found else None)
            case GetPrefix():
                listed = answer.get("response_range", {})
                more = bool(listed.get("more", False))
                return Response(items=tuple(self.items(listed)), more=more)


def revision_of(answer: Mapping[str, Any]) -> int:
    """The store's revision at the time of the answer."""
    return int(answer["header"]["revision"])


def deleted_by(answer: Mapping[str, Any]) -> int:
    """How many keys a deletion removed."""
    return int(answer.get("deleted", 0))


def _text(data: bytes) -> str:
    return b64encode(data).decode("ascii")
