"""The lake format: each closed ledger as one Parquet object, from which replays rebuild its frames.

``layout`` names objects, ``schema`` and ``summary`` define their contents, ``encoder`` writes them
from frames and ``decoder`` reads the frames back. docs/lake.md specifies the format.
"""

from __future__ import annotations

from importlib.util import find_spec

from sulina.errors import Refused


def require_lake() -> None:
    """Raises ``Refused`` if numpy or pyarrow is missing: only ``layout`` and ``summary`` work
    without them."""
    missing = [name for name in ("numpy", "pyarrow") if find_spec(name) is None]
    if missing:
        raise Refused(
            f"reading and writing Parquet objects needs {' and '.join(missing)}: "
            "pip install 'sulina[lake]'"
        )
