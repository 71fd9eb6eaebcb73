"""The errors that Sulina raises. The class tells a caller what to do next.

Every error belongs to one of four families:

* ``Retriable``: nothing happened; the same call may succeed later.
* ``Fenced``: another owner has taken over; this object must not be used again.
* ``UnknownOutcome``: the call may or may not have taken effect; read back before trying again.
* ``Refused``: the request is invalid or not allowed; trying again does not help.

The text of an error states the cause first, then the remedy.
"""

from __future__ import annotations


class SulinaError(Exception):
    """The base class of all errors of Sulina."""


class Retriable(SulinaError):
    """Nothing happened; the same call may succeed later."""


class Fenced(SulinaError):
    """A newer owner exists: stop using this object. What was in flight has an unknown outcome."""


class UnknownOutcome(SulinaError):
    """The call may or may not have taken effect: it timed out, or the connection was lost.

    Read back before trying again.
    """


class Refused(SulinaError):
    """The request is invalid or not allowed; the same request will be refused again."""


class SignInNeeded(Refused):
    """The broker wants a token, and names the OpenID Connect provider that issues them."""

    def __init__(
        self, text: str, issuer: str = "", client_id: str = "", audience: str = "", scope: str = ""
    ) -> None:
        super().__init__(text)
        self.issuer = issuer
        self.client_id = client_id
        self.audience = audience
        self.scope = scope


class CorruptFrame(Refused):
    """The bytes are not a valid frame: truncated, altered, or never a frame."""


class CorruptEntry(SulinaError):
    """Stored bytes fail their checksum. They are never served, and never reported as absent."""


class ProtocolError(Refused):
    """The peer violated the binary protocol; its connection is closed."""


class NotFound(Refused):
    """The named topic, subscription, namespace, ledger or entry does not exist."""


class AlreadyExists(Refused):
    """The name is already in use."""


class TooLarge(Refused):
    """A record, request or value exceeds a size limit."""


class StorageFull(Retriable):
    """No space is left for appends. Reads continue; appends resume when there is space again."""


class StorageFailed(Retriable):
    """The disk reported an error and cannot be trusted until the node restarts."""


class Overloaded(Retriable):
    """A limit was reached (queue, rate, memory): slow down and try again."""


class Unavailable(Retriable):
    """No broker, storage node or metadata store could be reached in time."""


class NobodyThere(Unavailable):
    """The machine was reached, but no process listens on the port."""


class Closed(Refused):
    """The client, producer, consumer or store was closed by the application."""
