"""The open lake: a closed ledger as one Parquet object, from which replays rebuild its frames.

``layout`` names objects, ``schema`` and ``summary`` say what is in them, ``encoder`` makes them
from frames and ``decoder`` gives the frames back. docs/lake.md describes the format for others.
"""

from __future__ import annotations

from importlib.util import find_spec

from sulina.errors import Refused


def require_lake() -> None:
    """Raises ``Refused`` with the remedy if the packages that the object format needs are missing.

    Only ``layout`` and ``summary`` work without them.
    """
    missing = [name for name in ("numpy", "pyarrow") if find_spec(name) is None]
    if missing:
        raise Refused(
            f"reading and writing Parquet objects needs {' and '.join(missing)}: "
            "pip install 'sulina[lake]'"
        )
