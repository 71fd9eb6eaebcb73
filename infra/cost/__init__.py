"""An estimate of what a stack costs per month."""

from __future__ import annotations
