"""Opens an Iceberg catalog by its URL.

* ``sqlite:///folder/catalog.db``: a file, for one machine
* ``glue:``, ``glue:eu-central-1``: AWS Glue, with credentials as all AWS tools find them
* ``http://host:port/path``, ``https://...``: a REST catalog; ``?warehouse=...`` and ``token=...``
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from sulina.errors import Refused, Unavailable
from sulina.tables.objects import LakePlace

try:
    from pyiceberg.catalog import Catalog, load_catalog
except ImportError:
    raise Refused("tables need pyiceberg: pip install 'sulina[tables]'") from None


def open_catalog(url: str, lake: LakePlace) -> Catalog:
    """The catalog of ``url``, which stores metadata next to ``lake``. Blocks.

    Raises ``Refused`` for an invalid URL, ``Unavailable`` if it cannot be reached.
    """
    place = urlsplit(url)
    store = {"s3.endpoint": lake.endpoint, "s3.region": lake.region}
    settings = {name: value for name, value in store.items() if value}
    match place.scheme:
        case "sqlite":
            Path(unquote(place.path)).parent.mkdir(parents=True, exist_ok=True)
            settings |= {"type": "sql", "uri": url, "warehouse": lake.url}
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
    try:
        return load_catalog("sulina", **settings)
    except Exception as error:  # of the catalog's client: any library
        raise Unavailable(f"the catalog {url} could not be opened: {error}") from error
