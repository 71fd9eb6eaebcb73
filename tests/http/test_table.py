"""The endpoints: what is documented is what is answered, and the tour in docs/http.md works."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from openapi_spec_validator import validate

from broker_containers.doors.http.openapi import document
from broker_containers.doors.http.problems import KINDS
from broker_containers.doors.http.routes import ENDPOINTS, PAGES, PUBLISH, Endpoint
from tests.http.client import Answer, Http, check_documented, running
from tests.operations.examples import EXAMPLES, REFUSED_HERE
from tests.support.server import SulinaProcess


async def call(http: Http, endpoint: Endpoint, arguments: dict[str, Any], **more: Any) -> Answer:
    """Send the arguments of an operation the way that its endpoint takes them."""
    path = endpoint.path
    rest = {name: value for name, value in arguments.items() if name not in endpoint.path_arguments}
    for name in endpoint.path_arguments:
        if name == "topic":
            namespace, topic = arguments["topic"][1:].split("/")
            path = path.replace("{namespace}/{topic}", f"{namespace}/{topic}")
        else:
            path = path.replace(f"{{{name}}}", quote(str(arguments[name]), safe=""))
    if endpoint.name == PUBLISH:
        return await http(endpoint.verb, path, data=b"hello", **more)
    if endpoint.query:
        query = "&".join(f"{name}={quote(str(value))}" for name, value in rest.items())
        return await http(endpoint.verb, f"{path}?{query}" if query else path, **more)
    return await http(endpoint.verb, path, None if endpoint.body is None else rest, **more)


async def test_every_operation_is_reached_over_http_and_answers_as_documented(
    tmp_path: Path,
) -> None:
    documented = document()
    by_name: dict[str, list[Endpoint]] = {}
    for endpoint in ENDPOINTS:
        by_name.setdefault(endpoint.name, []).append(endpoint)
    async with running(tmp_path) as broker:
        for name, arguments in EXAMPLES:
            for endpoint in by_name[name]:
                assert endpoint.operation is not None
                answer = await call(broker.http, endpoint, arguments)
                if endpoint.operation.needs_cluster:
                    assert "needs a cluster" in answer.problem(404, "no-such-path")
                elif name in REFUSED_HERE:
                    assert answer.json["detail"]
                else:
                    check_documented(endpoint, answer, documented)
        for page in PAGES:
            check_documented(page, await broker.http("GET", page.path), documented)


async def test_the_openapi_document_is_valid_and_names_every_endpoint(http: Http) -> None:
    found = await http.ok("GET", "/openapi.json")
    validate(found)
    named = {(verb.upper(), path) for path, verbs in found["paths"].items() for verb in verbs}
    assert named == {(endpoint.verb, endpoint.path) for endpoint in ENDPOINTS}


def test_no_documented_schema_is_empty() -> None:
    found = document()
    for name, schema in found["components"]["schemas"].items():
        assert schema.get("properties") or schema.get("oneOf"), name
    for endpoint in ENDPOINTS:
        described = found["paths"][endpoint.path][endpoint.verb.lower()]
        if endpoint.status != 204:
            for content in described["responses"][str(endpoint.status)]["content"].values():
                assert content["schema"], endpoint
        if endpoint.body:
            [content, *_] = described["requestBody"]["content"].values()
            assert endpoint.name == PUBLISH or content["schema"]["properties"]


async def test_the_root_lists_what_there_is_for_people_and_for_programs(http: Http) -> None:
    page = await http("GET", "/", headers={"Accept": "text/html,*/*"})
    assert page.status == 200 and page.type.startswith("text/html")
    for path in ("/docs", "/openapi.json", "/metrics", "/health/ready"):
        assert f'href="{path}"' in page.text
    answer = await http("GET", "/", headers={"Accept": "application/json"})
    assert answer.type.startswith("application/json")
    assert answer.json["links"]["docs"] == "/docs"


async def test_every_kind_of_problem_is_explained_on_the_page(http: Http) -> None:
    page = await http("GET", "/docs")
    assert page.type.startswith("text/html")
    for kind in KINDS:
        assert f'id="{kind.name}"' in page.text
    assert len({kind.name for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize("path", ["/docs", "/"])
async def test_the_pages_need_nothing_from_elsewhere(http: Http, path: str) -> None:
    page = await http("GET", path)
    for word in ("<script", "src=", "@import", "url(", "http://", "https://"):
        assert word not in page.text
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/", "/docs", "/health/live", "/api/v1/topics", "/metrics"])
async def test_head_is_answered_like_get_without_the_body(http: Http, path: str) -> None:
    answer = await http("HEAD", path)
    assert answer.status == 200 and not answer.body


_PAGE = Path(__file__).parents[2] / "docs" / "http.md"
_CODE = "[status %{http_code}]"


@pytest.mark.skipif(shutil.which("curl") is None, reason="the tour is one with curl")
def test_every_command_of_the_tour_succeeds(shared_sulina_process: SulinaProcess) -> None:
    page = _PAGE.read_text().replace("http://127.0.0.1:8080", shared_sulina_process.http_url)
    tour, _, rest = page.partition("## Errors")
    blocks = re.findall(r"```sh\n(.*?)```", tour, re.DOTALL)
    alone = [block for block in blocks if "$api/cluster" not in block]
    assert len(alone) == len(blocks) - 1
    deleting = [block for block in alone if "-X DELETE $api/topics/default/orders\n" in block]
    alone.sort(key=lambda block: block in deleting)
    script = "\n".join(alone).replace("sulina up &", "").replace("curl ", f"curl -sS -w '{_CODE}' ")
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    codes = re.findall(r"\[status (\d+)\]", done.stdout)
    assert len(codes) == script.count("curl ")
    assert {code[0] for code in codes} == {"2"}, done.stdout
    assert "problem+json" in rest
