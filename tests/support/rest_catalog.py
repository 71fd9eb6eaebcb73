"""A REST catalog in a process of its own: Iceberg's protocol over pyiceberg's SQLite catalog.

Commits are compare-and-swap, as SQLite does them, and tables outlive the process: it can be killed
and started again. ``moto``'s Glue, in contrast, ignores the version that a commit is based on.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from aiohttp import web
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import CommitTableRequest, Table

from localstack.emulators.server import HOST, EmulatorServer, Program, answers_http, free_ports

_STATUS: Final[Mapping[type[Exception], int]] = {
    NoSuchNamespaceError: 404,
    NoSuchTableError: 404,
    NamespaceAlreadyExistsError: 409,
    TableAlreadyExistsError: 409,
    CommitFailedException: 409,
}
_NAMESPACE: Final = "/v1/namespaces/{namespace}"
_TABLE: Final = f"{_NAMESPACE}/tables/{{table}}"


def running_rest_catalog(folder: Path, warehouse: str, **settings: str) -> EmulatorServer:
    """For ``with``, on a free port; ``settings`` are properties of pyiceberg's catalog."""
    (port,) = free_ports(1)
    given = {"uri": f"sqlite:///{folder.absolute()}/catalog.db", "warehouse": warehouse}
    program = Program(
        name="rest-catalog",
        command=(
            *(sys.executable, "-m", "tests.support.rest_catalog"),
            *(str(port), json.dumps(given | settings)),
        ),
        port=port,
        ready=answers_http("/v1/config"),
        environment={"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    return EmulatorServer(folder, program)


class RestCatalog:
    """Answers requests one after the other."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def application(self) -> web.Application:
        """With all routes that pyiceberg's client uses."""
        made = web.Application(middlewares=[_errors], client_max_size=1 << 30)
        made.add_routes(
            [
                web.get("/v1/config", self._config),
                web.post("/v1/namespaces", self._create_namespace),
                web.get(_NAMESPACE, self._namespace),
                web.get(f"{_NAMESPACE}/tables", self._list),
                web.post(f"{_NAMESPACE}/register", self._register),
                web.get(_TABLE, self._load),
                web.post(_TABLE, self._commit),
                web.delete(_TABLE, self._drop),
            ]
        )
        return made

    async def _config(self, request: web.Request) -> web.Response:
        return web.json_response({"defaults": {}, "overrides": {}})

    async def _create_namespace(self, request: web.Request) -> web.Response:
        wanted = await request.json()
        self._catalog.create_namespace(tuple(wanted["namespace"]))
        return web.json_response({"namespace": wanted["namespace"], "properties": {}})

    async def _namespace(self, request: web.Request) -> web.Response:
        name = request.match_info["namespace"]
        properties = dict(self._catalog.load_namespace_properties(name))
        return web.json_response({"namespace": [name], "properties": properties})

    async def _list(self, request: web.Request) -> web.Response:
        found = self._catalog.list_tables(request.match_info["namespace"])
        rows = [{"namespace": list(name[:-1]), "name": name[-1]} for name in found]
        return web.json_response({"identifiers": rows})

    async def _register(self, request: web.Request) -> web.Response:
        wanted = await request.json()
        name = (request.match_info["namespace"], wanted["name"])
        return _loaded(self._catalog.register_table(name, wanted["metadata-location"]))

    async def _load(self, request: web.Request) -> web.Response:
        return _loaded(self._catalog.load_table(_name(request)))

    async def _commit(self, request: web.Request) -> web.Response:
        wanted = CommitTableRequest.model_validate_json(await request.text())
        table = self._catalog.load_table(_name(request))
        done = self._catalog.commit_table(table, wanted.requirements, wanted.updates)
        return web.Response(text=done.model_dump_json(), content_type="application/json")

    async def _drop(self, request: web.Request) -> web.Response:
        self._catalog.drop_table(_name(request))
        return web.Response(status=204)


@web.middleware
async def _errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except tuple(_STATUS) as error:
        code = next(code for kind, code in _STATUS.items() if isinstance(error, kind))
        told = {"message": str(error), "type": type(error).__name__, "code": code}
        return web.json_response({"error": told}, status=code)


def _name(request: web.Request) -> tuple[str, str]:
    return request.match_info["namespace"], request.match_info["table"]


def _loaded(table: Table) -> web.Response:
    metadata = table.metadata.model_dump_json()
    text = f'{{"metadata-location": {json.dumps(table.metadata_location)}, "metadata": {metadata}}}'
    return web.Response(text=text, content_type="application/json")


def main() -> None:
    """Serve until killed: the port, and the catalog's properties as JSON."""
    port, properties = int(sys.argv[1]), json.loads(sys.argv[2])
    catalog = load_catalog("rest", type="sql", **properties)
    web.run_app(RestCatalog(catalog).application(), host=HOST, port=port, print=None)


if __name__ == "__main__":
    main()
