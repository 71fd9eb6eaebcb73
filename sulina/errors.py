"""The family of errors that Sulina raises: few, and each says what a caller may do next.

Every error is one of four kinds:

* ``Retriable``: nothing happened; the same call may succeed later.
* ``Fenced``: another owner took over; this object must not be used again.
* ``UnknownOutcome``: the call may or may not have taken effect; read back before trying again.
* ``Refused``: the request itself is wrong or not allowed; trying again does not help.

The text of an error is written for the person who reads it: the cause first, then the remedy.
"""

from __future__ import annotations


class SulinaError(Exception):
    """Base of every error that Sulina raises on purpose."""


class Retriable(SulinaError):
    """Nothing happened; the same call may succeed later."""


class Fenced(SulinaError):
    """A newer owner exists. What was in flight has an unknown outcome; stop using this object."""


class UnknownOutcome(SulinaError):
    """The call may or may not have taken effect (a time-out, a connection lost while waiting)."""


class Refused(SulinaError):
    """The request is wrong or not allowed; the same request will be refused again."""


class CorruptFrame(Refused):
    """Bytes that should be a frame are not: truncated, altered, or never were one."""


class CorruptEntry(SulinaError):
    """Stored bytes fail their checksum. They are never served, and never called absent."""


class ProtocolError(Refused):
    """The peer broke the binary protocol; its connection is closed."""


class NotFound(Refused):
    """The named topic, subscription, namespace, ledger or entry does not exist."""


class AlreadyExists(Refused):
    """The name is taken."""


class TooLarge(Refused):
    """Larger than a stated limit."""


class StorageFull(Retriable):
    """No space is left for appends. Reads go on; appends resume when there is space again."""


class StorageFailed(Retriable):
    """The disk reported an error after which it cannot be trusted until the node restarts."""


class Overloaded(Retriable):
    """A bound was reached (queue, rate, memory); slow down and try again."""


class Unavailable(Retriable):
    """No broker, storage node or metadata store could be reached in the time allowed."""


class NobodyThere(Unavailable):
    """The machine was reached, and says that no process listens there."""


class Closed(Refused):
    """The client, producer, consumer or store was closed by its own user."""
