"""A network between a client and a broker that can fail: connections are cut, or answers held."""

from __future__ import annotations

from tests.support.wire import Wire


class Proxy(Wire):
    """Forwards to a port of this machine. Use as ``async with``; clients dial ``url``."""

    @property
    def url(self) -> str:
        return f"sulina://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Reset all connections; what is on its way is lost, new connections are made."""
        super().cut()
        self.heal()

    def cut_and_refuse(self) -> None:
        """As ``cut``, and no new connection is made before ``allow``."""
        super().cut()

    def allow(self) -> None:
        self.heal()

    def hold_answers(self) -> None:
        """Let requests through, and nothing back."""
        self.block(there=False)
