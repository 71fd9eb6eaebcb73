"""Slows down callers that present invalid tokens, by their address.

Only refusals wait: a valid token is accepted immediately, also from an address that presents
invalid ones, so that nobody can lock out the clients behind the same proxy.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from sulina.errors import Overloaded
from sulina.runtime.seam import Clock

_AT_ONCE: Final = 10
"""Invalid tokens of an address that are refused without a wait."""
_FIRST_SECONDS: Final = 0.05
_LONGEST_SECONDS: Final = 1.0
_FORGET_SECONDS: Final = 60.0
"""An address without invalid tokens for this long starts again."""
_MOST_ADDRESSES: Final = 4096
_MOST_WAITING: Final = 32
_MOST_WAITING_PER_ADDRESS: Final = 8


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last: float = 0.0
    waiting: int = 0


class TokenThrottle:
    """The invalid tokens of all doors of one broker. Addresses and waiting refusals are bounded."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._addresses: OrderedDict[str, _Failures] = OrderedDict()
        self._waiting = 0

    async def refused(self, address: str) -> None:
        """Count an invalid token from ``address``, and wait as long as its refusal is held back.

        The wait doubles with each invalid token, up to one second. Raises ``Overloaded`` without
        waiting if too many refusals are held back already.
        """
        failures = self._of(network_of(address))
        seconds = _wait_seconds(failures.count)
        if not seconds:
            return
        if failures.waiting >= _MOST_WAITING_PER_ADDRESS or self._waiting >= _MOST_WAITING:
            raise Overloaded(
                f"too many invalid tokens from {address}: check the token, then try again in "
                f"{seconds:.1f} s"
            )
        failures.waiting += 1
        self._waiting += 1
        try:
            await self._clock.sleep(seconds)
        finally:
            failures.waiting -= 1
            self._waiting -= 1

    def _of(self, network: str) -> _Failures:
        now = self._clock.now()
        found = self._addresses.get(network)
        if found is None:
            found = self._addresses[network] = _Failures()
            if len(self._addresses) > _MOST_ADDRESSES:
                self._addresses.popitem(last=False)
        elif now - found.last > _FORGET_SECONDS:
            found.count = 0
        found.count += 1
        found.last = now
        self._addresses.move_to_end(network)
        return found


def _wait_seconds(count: int) -> float:
    if count <= _AT_ONCE:
        return 0.0
    doubled = min(count - _AT_ONCE - 1, 16)
    return min(_FIRST_SECONDS * 2.0**doubled, _LONGEST_SECONDS)


def network_of(address: str) -> str:
    """What limits count by: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
