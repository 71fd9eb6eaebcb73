"""Limits of the metadata store, checked before anything is sent; the same for every store.

They keep each request below etcd's default limits of 1.5 MB and 128 operations.
"""

from __future__ import annotations

from collections.abc import Sequence

from sulina.errors import Refused, TooLarge
from sulina.metadata.store import Compare, Delete, DeletePrefix, GetPrefix, Op, Put, ValueIs

MAX_KEY_BYTES = 1024
MAX_VALUE_BYTES = 1024 * 1024
MAX_TXN_OPS = 128
MAX_TXN_BYTES = 1280 * 1024
_OP_BYTES = 64
"""An upper bound of an operation's size beside its key and value."""


def check_key(key: str) -> int:
    """The key's length in bytes. Raises ``Refused`` or ``TooLarge`` if it is invalid."""
    if not key:
        raise Refused("a metadata key cannot be empty")
    return check_prefix(key)


def check_prefix(prefix: str) -> int:
    """The prefix's length in bytes. Raises ``Refused`` or ``TooLarge`` if it is invalid."""
    try:
        length = len(prefix.encode())
    except UnicodeEncodeError:
        raise Refused(f"{prefix!r} is not a valid metadata key: it is not valid Unicode") from None
    if length > MAX_KEY_BYTES:
        raise TooLarge(
            f"a metadata key has at most {MAX_KEY_BYTES} bytes and this one {length}: "
            f"shorten the name in {prefix[:60]!r}..."
        )
    return length


def check_range(prefix: str, after: str | None, limit: int | None) -> None:
    """Raises ``Refused`` or ``TooLarge`` if the arguments of a listing are invalid."""
    check_prefix(prefix)
    if after is not None:
        check_prefix(after)
    if limit is not None and limit < 1:
        raise Refused(f"a limit of {limit} lists nothing: omit it or use 1 or more")


def check_ttl(ttl_seconds: int) -> None:
    """Raises ``Refused`` if the time to live of a lease is invalid."""
    if ttl_seconds < 1:
        raise Refused(f"invalid time to live of a lease: {ttl_seconds} s; use 1 second or more")


def check_from_revision(revision: int) -> None:
    """Raises ``Refused`` if a watch cannot start at ``revision``."""
    if revision < 1:
        raise Refused(f"a watch cannot start at revision {revision}: the first revision is 1")


def check_txn(compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op]) -> int:
    """The transaction's size in bytes. Raises ``Refused`` or ``TooLarge`` if it is invalid."""
    for part in (compares, then, otherwise):
        if len(part) > MAX_TXN_OPS:
            raise Refused(
                f"a metadata transaction has at most {MAX_TXN_OPS} operations and this one "
                f"{len(part)}: split it"
            )
    size = 0
    for compare in compares:
        value = compare.value if isinstance(compare, ValueIs) else b""
        size += check_key(compare.key) + _check_value(compare.key, value) + _OP_BYTES
    for op in (*then, *otherwise):
        size += _check_op(op) + _OP_BYTES
    if size > MAX_TXN_BYTES:
        raise TooLarge(
            f"a metadata transaction has at most {MAX_TXN_BYTES} bytes and this one {size}: "
            "split it"
        )
    _check_written_once(then)
    _check_written_once(otherwise)
    return size


def _check_op(op: Op) -> int:
    if isinstance(op, DeletePrefix):
        if not op.prefix:
            raise Refused("an empty prefix would delete every key: specify a prefix")
        return check_prefix(op.prefix)
    if isinstance(op, GetPrefix):
        check_range(op.prefix, None, op.limit)
        return check_prefix(op.prefix)
    size = check_key(op.key)
    if isinstance(op, Put):
        size += _check_value(op.key, op.value)
    return size


def _check_value(key: str, value: bytes) -> int:
    if len(value) > MAX_VALUE_BYTES:
        raise TooLarge(
            f"a metadata value has at most {MAX_VALUE_BYTES} bytes and the one for {key!r} has "
            f"{len(value)}: store large data in a ledger or an object"
        )
    return len(value)


def _check_written_once(ops: Sequence[Op]) -> None:
    """All changes of a transaction share a revision, so each key may change only once."""
    deleted = {op.key for op in ops if isinstance(op, Delete)}
    prefixes = tuple(op.prefix for op in ops if isinstance(op, DeletePrefix))
    put: set[str] = set()
    for op in ops:
        if not isinstance(op, Put):
            continue
        if op.key in put or op.key in deleted or op.key.startswith(prefixes):
            raise Refused(f"a transaction cannot change {op.key!r} twice: use two transactions")
        put.add(op.key)
