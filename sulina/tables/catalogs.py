"""Opens an Iceberg catalog by its URL.

* ``sqlite:///folder/catalog.db``: a file, for one machine; ``sqlite:////`` begins a path from the
  root
* ``glue:``, ``glue:eu-central-1``: AWS Glue, with credentials as all AWS tools find them
* ``http://host:port/path``, ``https://...``: a REST catalog; ``?warehouse=...`` and ``token=...``
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from sulina.errors import NotFound, Refused, Unavailable
from sulina.tables.objects import LakePlace

try:
    from pyiceberg.catalog import Catalog, load_catalog
except ImportError:
    raise Refused("tables need pyiceberg: pip install 'sulina[tables]'") from None


_SQL_ATTEMPTS: Final = 3
"""Who opens a new file makes its two tables, and fails if another was faster with one of them."""


def open_catalog(url: str, lake: LakePlace, *, create: bool = True) -> Catalog:
    """The catalog of ``url``, which stores metadata next to ``lake``. Blocks.

    ``create`` makes a file that does not exist. Raises ``Refused`` for an invalid URL, ``NotFound``
    for such a file otherwise, ``Unavailable`` if the catalog cannot be reached.
    """
    place = urlsplit(url)
    store = {"s3.endpoint": lake.endpoint, "s3.region": lake.region}
    settings = {name: value for name, value in store.items() if value}
    attempts = 1
    match place.scheme:
        case "sqlite" if not place.netloc:
            file = Path(unquote(place.path)[1:])
            if create:
                _make_folder(file.parent)
            elif not file.exists():
                raise NotFound(
                    f"there is no catalog {file}: check its path, or let "
                    "`sulina table backfill --all` make it"
                )
            settings |= {"type": "sql", "uri": url, "warehouse": lake.url}
            attempts = _SQL_ATTEMPTS
        case "glue":
            settings |= {"type": "glue"} | ({"glue.region": place.path} if place.path else {})
        case "http" | "https":
            settings |= dict(parse_qsl(place.query))
            address = urlunsplit(place._replace(query=""))
            settings |= {"type": "rest", "uri": address}
        case _:
            raise Refused(
                f"{url!r} is not a catalog: write sqlite:///folder/catalog.db, glue:region, or the "
                "http:// address of a REST catalog"
            )
    while True:
        attempts -= 1
        try:
            return load_catalog("sulina", **settings)
        except Exception as error:  # of the catalog's client: any library
            if not attempts:
                raise Unavailable(
                    f"the catalog {url} could not be opened: {reason(error)}"
                ) from error


def reason(error: BaseException) -> str:
    """What is wrong, in a line: clients of catalogs wrap errors, and add links to their pages."""
    while isinstance(error.args[0] if error.args else None, Exception):
        error = error.args[0]
    inner = getattr(error, "reason", None)
    return (str(inner) if isinstance(inner, Exception) else str(error)).partition("\n")[0]


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"the folder {folder} of the catalog cannot be made: {error}") from None
