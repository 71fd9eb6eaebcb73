"""The emulated AWS behind the gateway."""

from __future__ import annotations

from tests.support.emulators import moto as moto
