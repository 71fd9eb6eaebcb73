"""The endpoints: what is documented is what is answered; errors are problem details."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from openapi_spec_validator import validate

from broker_containers.broker.settings import HttpSettings
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


async def test_the_root_is_the_console_for_people_and_links_for_programs(http: Http) -> None:
    page = await http("GET", "/", headers={"Accept": "text/html,*/*"})
    assert page.status == 200 and page.type.startswith("text/html")
    assert "/console/app.js" in page.text
    answer = await http("GET", "/", headers={"Accept": "application/json"})
    assert answer.type.startswith("application/json")
    assert answer.json["links"]["docs"] == "/docs"
    assert answer.json["sign_in"] == {"token": False, "provider": None}


async def test_every_kind_of_problem_is_explained_on_the_page(http: Http) -> None:
    page = await http("GET", "/docs")
    assert page.type.startswith("text/html")
    for kind in KINDS:
        assert f'id="{kind.name}"' in page.text
    assert len({kind.name for kind in KINDS}) == len(KINDS)


async def test_the_documentation_needs_nothing_from_elsewhere(http: Http) -> None:
    page = await http("GET", "/docs")
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


TOPICS = "/api/v1/topics"


async def test_an_unknown_path_points_to_the_documentation(http: Http) -> None:
    answer = await http("GET", "/api/v1/nothing")
    assert "/docs" in answer.problem(404, "no-such-path")


async def test_a_wrong_method_names_the_right_ones(http: Http) -> None:
    answer = await http("PUT", TOPICS)
    assert "use GET, HEAD, POST" in answer.problem(405, "wrong-method")
    assert answer.headers["Allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize("body", [b"{", b"nonsense", b"[1]", b'"text"', b"[" * 60_000, b"\xff"])
async def test_a_body_that_is_not_a_json_object_is_refused(http: Http, body: bytes) -> None:
    answer = await http("POST", TOPICS, data=body, headers={"Content-Type": "application/json"})
    assert "JSON" in answer.problem(400, "refused")


async def test_a_body_of_another_type_is_refused(http: Http) -> None:
    answer = await http("POST", TOPICS, data=b"<a/>", headers={"Content-Type": "text/xml"})
    assert "application/json" in answer.problem(415, "wrong-media-type")


async def test_a_misspelled_field_is_not_ignored(http: Http) -> None:
    answer = await http("POST", TOPICS, {"topic": "/default/x", "partition": 3})
    detail = answer.problem(400, "refused")
    assert "'partition'" in detail and "partitions" in detail


async def test_a_missing_field_is_named(http: Http) -> None:
    assert "topic is missing" in (await http("POST", TOPICS, {})).problem(400, "refused")


async def test_an_unexpected_body_is_refused(http: Http) -> None:
    answer = await http("DELETE", f"{TOPICS}/default/x", {"force": True})
    assert "takes no body" in answer.problem(400, "refused")


@pytest.mark.parametrize(
    ("query", "remedy"),
    [("name=x", "choose from namespace"), ("all=maybe", "true or false"), ("all=1&all=0", "twice")],
)
async def test_a_wrong_parameter_is_refused(http: Http, query: str, remedy: str) -> None:
    assert remedy in (await http("GET", f"{TOPICS}?{query}")).problem(400, "refused")


async def test_a_body_that_is_too_large_is_refused_with_and_without_content_length(
    http: Http,
) -> None:
    large = b'{"topic": "' + b"x" * (70 << 10) + b'"}'
    json = {"Content-Type": "application/json"}
    announced = await http("POST", TOPICS, data=large, headers=json)
    assert "limit of 65536" in announced.problem(413, "too-large")

    async def parts() -> object:
        for start in range(0, len(large), 10_000):
            yield large[start : start + 10_000]

    in_parts = await http("POST", TOPICS, data=parts(), headers=json)
    assert "limit of 65536" in in_parts.problem(413, "too-large")


async def test_what_does_not_exist_is_not_found(http: Http) -> None:
    for path in (f"{TOPICS}/default/none", f"{TOPICS}/default/none/subscriptions"):
        assert "/default/none" in (await http("GET", path)).problem(404, "not-found")


async def test_a_name_that_is_taken_is_a_conflict(http: Http, topic: str) -> None:
    await http.ok("POST", TOPICS, {"topic": f"/default/{topic}"})
    answer = await http("POST", TOPICS, {"topic": f"/default/{topic}"})
    answer.problem(409, "already-exists")


async def test_a_bad_name_is_refused_with_the_rule(http: Http) -> None:
    answer = await http("GET", f"{TOPICS}/default/a%20b")
    assert "/namespace/topic" in answer.problem(400, "refused")


async def test_bytes_that_are_not_http_are_refused_without_effect_on_others(http: Http) -> None:
    port = int(http.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
    assert (await asyncio.wait_for(reader.read(), 30)).startswith(b"HTTP/1.0 400")
    writer.close()
    await http.ok("GET", "/health/live")


async def test_another_web_site_can_not_change_anything(http: Http, topic: str) -> None:
    foreign = {"Origin": "https://elsewhere.example"}
    path = f"{TOPICS}/default/{topic}/messages"
    answer = await http("POST", path, data=b"x", headers=foreign)
    assert "--http-cors" in answer.problem(403, "other-site")
    assert "Access-Control-Allow-Origin" not in answer.headers
    own = {"Origin": http.url}
    assert (await http("POST", path, data=b"x", headers=own)).status == 200


async def test_a_name_that_points_to_the_broker_is_not_enough_without_a_token(
    http: Http, tmp_path: Path
) -> None:
    rebound = {"Host": "attacker.example:8080"}
    for method, path in (("GET", TOPICS), ("GET", "/metrics"), ("POST", TOPICS)):
        answer = await http(method, path, headers=rebound)
        assert "--http-host attacker.example" in answer.problem(421, "other-host")
    assert (await http("GET", "/health/ready", headers=rebound)).status == 200
    for host in ("localhost:1", "127.0.0.1", "[::1]:8080", "10.1.2.3:80", "a.localhost"):
        assert (await http("GET", TOPICS, headers={"Host": host})).status == 200
    settings = HttpSettings(allowed_hosts=("broker.example",))
    async with running(tmp_path, settings) as broker:
        allowed = {"Host": "Broker.example:8080"}
        assert (await broker.http("GET", TOPICS, headers=allowed)).status == 200


async def test_an_allowed_web_site_may_call(tmp_path: Path) -> None:
    site = "https://console.example"
    async with running(tmp_path, HttpSettings(cors_origins=(site,))) as broker:
        asking = {"Origin": site, "Access-Control-Request-Method": "PATCH"}
        preflight = await broker.http("OPTIONS", TOPICS, headers=asking)
        assert preflight.status == 204
        assert preflight.headers["Access-Control-Allow-Origin"] == site
        assert "PATCH" in preflight.headers["Access-Control-Allow-Methods"]
        made = await broker.http("POST", TOPICS, {"topic": "/default/x"}, headers={"Origin": site})
        assert made.status == 201
        assert made.headers["Access-Control-Allow-Origin"] == site
        other = {"Origin": "https://elsewhere.example"}
        assert (await broker.http("POST", TOPICS, {}, headers=other)).status == 403


async def test_a_body_that_does_not_arrive_in_time_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, HttpSettings(request_seconds=0.1)) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        writer.write(b"POST /api/v1/topics HTTP/1.1\r\nHost: ::1\r\nContent-Length: 10\r\n\r\n{")
        answer = await asyncio.wait_for(reader.read(), 30)
        assert b" 408 " in answer and b"/docs#too-slow" in answer
        writer.close()


async def test_a_changed_limit_holds_after_a_restart(tmp_path: Path) -> None:
    large = b'{"topic": "' + b"x" * 2000 + b'"}'
    json = {"Content-Type": "application/json"}
    async with running(tmp_path) as broker:
        path = "/api/v1/config/http.max_body_bytes"
        await broker.http.ok("PUT", path, {"value": "1KiB"})
        answer = await broker.http("POST", TOPICS, data=large, headers=json)
        assert answer.status != 413, "the door was open before"
    async with running(tmp_path) as broker:
        answer = await broker.http("POST", TOPICS, data=large, headers=json)
        assert "limit of 1024" in answer.problem(413, "too-large")
