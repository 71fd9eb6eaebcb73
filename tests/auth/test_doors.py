"""The same tokens and grants at every door, also from the command line: good, bad, revoked."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

import sulina
from broker_containers.commands.auth_options import (
    ROOT_VARIABLE,
    SecurityOptions,
    read_root,
    security_warning,
)
from broker_containers.doors.danube import danube_pb2 as pb
from sulina import FailurePolicy, Poison, Producer
from sulina.errors import Refused
from tests.auth.broker import ROOT, Guarded, bearer, json_web_token
from tests.danube.calls import Calls, status_of
from tests.danube_admin.client import AdminClient
from tests.support.shell import CommandResult, Shell

Code = grpc.StatusCode
PATIENCE = 30.0
pytestmark = pytest.mark.usefixtures("held_back")


@asynccontextmanager
async def admin_calls(guarded: Guarded, token: str) -> AsyncIterator[AdminClient]:
    place = f"127.0.0.1:{guarded.admin_port}"
    async with grpc.aio.insecure_channel(place, interceptors=[_Shows(token)]) as channel:
        yield AdminClient(channel)


class _Shows(grpc.aio.UnaryUnaryClientInterceptor):
    def __init__(self, token: str) -> None:
        self._token = token

    async def intercept_unary_unary(
        self, continuation: Callable[..., Awaitable[Any]], details: Any, request: Any
    ) -> Any:
        shown = (("authorization", f"Bearer {self._token}"),) if self._token else ()
        return await continuation(details._replace(metadata=shown), request)


async def outcomes(guarded: Guarded, token: str, topic: str) -> list[bool]:
    """Whether each door allows publishing (or describing) with this token."""
    done = []
    try:
        async with guarded.connect(token) as client, client.producer(topic) as producer:
            await producer.send(b"binary")
        done.append(True)
    except Refused:
        done.append(False)
    headers = bearer(token) if token else None
    answer = await guarded.http(
        "POST", f"/api/v1/topics{topic}/messages", data=b"http", headers=headers
    )
    assert answer.status in (200, 401, 403)
    done.append(answer.status == 200)
    async with Calls(guarded.grpc_url, token) as calls:
        code = await status_of(calls.producer(topic))
        assert code in (Code.OK, Code.UNAUTHENTICATED, Code.PERMISSION_DENIED)
        done.append(code is Code.OK)
    async with admin_calls(guarded, token) as calls_:
        code = await status_of(calls_("TopicAdmin/DescribeTopic", name=topic))
        assert code in (Code.OK, Code.UNAUTHENTICATED, Code.PERMISSION_DENIED)
        done.append(code is Code.OK)
    return done


ALL, NONE = [True] * 4, [False] * 4


async def test_a_valid_token_is_accepted_by_every_door(
    guarded: Guarded, topic: str, name: str
) -> None:
    assert await outcomes(guarded, await guarded.token(name, f"produce:{topic}"), topic) == ALL
    assert await outcomes(guarded, ROOT, topic) == ALL


async def test_a_missing_or_invalid_token_is_refused_by_every_door(
    guarded: Guarded, topic: str, name: str, held_back: list[float]
) -> None:
    good = await guarded.token(name, f"produce:{topic}")
    await guarded.root.admin("topic.create", {"topic": topic})
    assert await outcomes(guarded, "", topic) == NONE
    assert held_back == []
    wrong = ("nonsense", good[:-1], f"{good}x", ROOT + "x", "sulina__", "sulina_x_y")
    for bad in wrong:
        assert await outcomes(guarded, bad, topic) == NONE, bad
    assert len(held_back) == len(wrong) * len(NONE)  # each door holds each of them back
    assert held_back[-1] == 1.0


async def test_a_token_without_the_right_is_refused_by_every_door(
    guarded: Guarded, topic: str, name: str
) -> None:
    await guarded.root.admin("topic.create", {"topic": topic})
    token = await guarded.token(name, f"produce:{topic}-other", f"schemas:{topic}")
    assert await outcomes(guarded, token, topic) == NONE


async def test_a_revoked_token_is_refused(guarded: Guarded, topic: str, name: str) -> None:
    made = await guarded.made(name, f"produce:{topic}")
    assert await outcomes(guarded, made["token"], topic) == ALL
    await guarded.root.admin("token.revoke", {"id": made["id"]})
    assert await outcomes(guarded, made["token"], topic) == NONE
    # Another one of the same principal goes on.
    assert await outcomes(guarded, await guarded.token(name), topic) == ALL


async def test_an_expired_token_is_refused(guarded: Guarded, topic: str, name: str) -> None:
    await guarded.root.admin("topic.create", {"topic": topic})
    token = await guarded.token(name, f"admin:{topic}", seconds=1)
    async with asyncio.timeout(PATIENCE):
        while await outcomes(guarded, token, topic) != NONE:
            await asyncio.sleep(0.1)
    with pytest.raises(Refused, match="expired"):
        await guarded.connect(token).open()


async def test_deleting_a_principal_invalidates_its_tokens_for_good(
    guarded: Guarded, topic: str, name: str
) -> None:
    token = await guarded.token(name, f"produce:{topic}")
    await guarded.root.admin("topic.create", {"topic": topic})
    await guarded.root.admin("principal.delete", {"principal": name})
    assert await outcomes(guarded, token, topic) == NONE
    await guarded.root.admin("principal.grant", {"principal": name, "grants": ["admin:*"]})
    assert await outcomes(guarded, token, topic) == NONE


async def test_danubes_json_web_tokens_are_accepted_by_every_door(
    guarded: Guarded, topic: str, name: str
) -> None:
    await guarded.root.admin("topic.create", {"topic": topic})
    assert await outcomes(guarded, json_web_token(name), topic) == NONE  # nobody knows it yet
    grants = [f"produce:{topic}"]
    await guarded.root.admin("principal.grant", {"principal": name, "grants": grants})
    assert await outcomes(guarded, json_web_token(name), topic) == ALL
    assert await outcomes(guarded, json_web_token(name, seconds=-1), topic) == NONE
    assert await outcomes(guarded, json_web_token(name, key=b"another"), topic) == NONE


async def test_a_json_web_token_without_rights_is_valid_and_allows_nothing(
    guarded: Guarded, topic: str, name: str
) -> None:
    token = json_web_token(name)
    answer = await guarded.http("GET", "/api/v1/topics", headers=bearer(token))
    assert answer.status == 403
    async with Calls(guarded.grpc_url, token) as calls:
        assert await status_of(calls.producer(topic)) is Code.PERMISSION_DENIED
        assert await status_of(calls("TopicLookup", topic=topic)) is Code.PERMISSION_DENIED
    async with admin_calls(guarded, token) as admin:
        asked = admin("TopicAdmin/DescribeTopic", name=topic)
        assert await status_of(asked) is Code.PERMISSION_DENIED


async def send_for_ever(producer: Producer) -> None:
    while True:
        await (await producer.send(b"not any more"))


async def test_a_connected_client_loses_what_is_withdrawn(
    guarded: Guarded, topic: str, name: str
) -> None:
    token = await guarded.token(name, f"produce:{topic}", f"consume:{topic}")
    async with guarded.connect(token) as client:
        producer = client.producer(topic)
        await producer.open()
        consumer = client.consumer(topic, "s")
        await consumer.open()
        await guarded.root.admin(
            "principal.withdraw", {"principal": name, "grants": [f"consume:{topic}"]}
        )
        with pytest.raises(Refused, match="may not do this"):
            await consumer.receive(PATIENCE)
        await (await producer.send(b"still allowed"))
        await guarded.root.admin("principal.delete", {"principal": name})
        with pytest.raises(Refused, match="token"):
            await send_for_ever(producer)


async def test_a_client_reconnects_with_the_next_token_when_one_expires(
    guarded: Guarded, topic: str, name: str
) -> None:
    tokens = [await guarded.made(name, f"produce:{topic}") for _ in range(2)]
    shown: list[str] = []

    def next_token() -> str:
        shown.append(tokens[min(len(shown), 1)]["token"])
        return shown[-1]

    async with (
        sulina.connect(guarded.server.addresses.url, token=next_token) as client,
        client.producer(topic, send_timeout=PATIENCE) as producer,
    ):
        await (await producer.send(b"first"))
        await guarded.root.admin("token.revoke", {"id": tokens[0]["id"]})
        await (await producer.send(b"second"))
    assert shown[:2] == [each["token"] for each in tokens]


async def test_a_stream_of_a_danube_client_ends_with_its_token(
    guarded: Guarded, topic: str, name: str
) -> None:
    made = await guarded.made(name, f"consume:{topic}")
    async with (
        Calls(guarded.grpc_url, made["token"]) as calls,
        guarded.root.producer(topic) as producer,
    ):
        number = await calls.subscribe(topic)
        stream = calls.stream(number)
        await (await producer.send(b"first"))
        assert (await stream.read()).payload == b"first"
        await guarded.root.admin("token.revoke", {"id": made["id"]})
        await (await producer.send(b"second"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
        assert caught.value.code() is Code.UNAUTHENTICATED


async def test_dead_letters_of_a_consumer_need_the_right_to_publish(
    guarded: Guarded, topic: str, name: str
) -> None:
    token = await guarded.token(name, f"consume:{topic}")
    policy = FailurePolicy(poison=Poison.DEAD_LETTER, dead_letter_topic=f"{topic}-dead")
    async with guarded.connect(token) as client:
        with pytest.raises(Refused, match=f"produce on {topic}-dead"):
            await client.consumer(topic, "s", failure_policy=policy).open()


async def test_a_health_check_without_a_token_is_told_to_retry(
    guarded: Guarded, topic: str, name: str
) -> None:
    token = await guarded.token(name, f"produce:{topic}")
    answers = []
    for shown in (token, "wrong", ""):
        async with Calls(guarded.grpc_url, shown) as calls:
            if shown == token:
                number = await calls.producer(topic)
            answers.append((await calls("HealthCheck", client=0, id=number)).status)
    ok, close = pb.HealthCheckResponse.OK, pb.HealthCheckResponse.CLOSE
    assert answers == [ok, close, close]


async def test_naming_a_partition_adds_none_without_the_right_to_manage_the_topic(
    guarded: Guarded, name: str, topic: str
) -> None:
    token = await guarded.token(name, f"produce:{topic}")
    async with Calls(guarded.grpc_url, token) as calls:
        denied = Code.PERMISSION_DENIED
        assert await status_of(calls.producer(f"{topic}-part-4095")) is denied
        await guarded.root.admin("topic.create", {"topic": topic, "partitions": 2})
        assert await status_of(calls.producer(f"{topic}-part-2")) is denied
        await calls.producer(f"{topic}-part-1")
        assert len(await guarded.root.admin("topic.partitions", {"topic": topic})) == 2
        grant = {"principal": name, "grants": [f"topics:{topic}"]}
        await guarded.root.admin("principal.grant", grant)
        await calls.producer(f"{topic}-part-2")
        assert len(await guarded.root.admin("topic.partitions", {"topic": topic})) == 3


async def test_an_api_key_is_exchanged_for_a_token_if_it_is_a_token(
    guarded: Guarded, name: str
) -> None:
    token = await guarded.token(name)
    async with Calls(guarded.grpc_url) as calls:
        assert (await calls("Authenticate", api_key=token)).token == token
        assert await status_of(calls("Authenticate", api_key="wrong")) is Code.UNAUTHENTICATED


async def test_health_and_documentation_are_public_and_metrics_are_not(
    guarded: Guarded, name: str
) -> None:
    for path in ("/health/live", "/health/ready", "/docs", "/openapi.json"):
        assert (await guarded.http("GET", path)).status == 200
    refused = await guarded.http("GET", "/metrics")
    refused.problem(401, "unauthenticated")
    assert refused.headers["WWW-Authenticate"].startswith("Bearer")
    headers = bearer(await guarded.token(name))
    denied = await guarded.http("GET", "/api/v1/tokens", headers=headers)
    assert "cluster on everything" in denied.problem(403, "denied")


async def test_metrics_show_the_topics_that_the_caller_may_look_up(
    guarded: Guarded, name: str, topic: str
) -> None:
    other = f"{topic}-other"
    for each in (topic, other):
        async with guarded.root.producer(each) as producer:
            await producer.send(b"x")

    async def shown(*grants: str) -> str:
        headers = bearer(await guarded.token(f"{name}-{len(grants)}-{grants[:1]}", *grants))
        answer = await guarded.http("GET", "/metrics", headers=headers)
        assert answer.status == 200
        return answer.body.decode()

    nothing, one, all_ = await shown(), await shown(f"consume:{topic}"), await shown("lookup:*")
    assert topic not in nothing and "sulina_broker_messages_in_total" not in nothing
    assert f'messages_in_total{{broker="broker-1",topic="{topic}"}} 1' in one and other not in one
    assert topic in all_ and other in all_ and "sulina_broker_messages_in_total" in all_


async def test_subjects_are_shown_to_those_with_a_right_on_them_or_on_their_topics(
    guarded: Guarded, name: str, topic: str
) -> None:
    made = await guarded.root.admin("schema.register", {"subject": name, "type": "string"})
    token = await guarded.token(name, f"consume:{topic}")
    reads = [("schema.get", {"subject": name}), ("schema.versions", {"subject": name}),
             ("schema.lookup", {"id": made["id"]})]  # fmt: skip
    async with guarded.connect(token) as client:

        async def listed() -> bool:
            return name in [row["subject"] for row in await client.admin("schema.list", {})]

        assert not await listed()
        for call, arguments in reads:
            with pytest.raises(Refused, match="may not look up the schema subject"):
                await client.admin(call, arguments)
        with pytest.raises(Refused, match=f"schemas on {name}"):
            await client.admin("schema.check", {"subject": name, "type": "string"})
        await guarded.root.admin("topic.create", {"topic": topic})
        await guarded.root.admin("schema.bind", {"topic": topic, "subject": name})
        assert await listed()
        for call, arguments in reads:
            await client.admin(call, arguments)
    looking = await guarded.token(f"{name}-looking", f"lookup:{name}")
    async with guarded.connect(looking) as client:
        await client.admin("schema.get", {"subject": name})


async def test_changes_of_schemas_need_a_right(guarded: Guarded, name: str) -> None:
    registering = {"subject": name, "type": "string"}
    async with guarded.connect(await guarded.token(name)) as client:
        with pytest.raises(Refused, match=f"schemas on {name}"):
            await client.admin("schema.register", registering)
        grants = {"principal": name, "grants": [f"schemas:{name}"]}
        await guarded.root.admin("principal.grant", grants)
        made = await client.admin("schema.register", registering)
        assert (await client.admin("schema.lookup", {"id": made["id"]}))["subject"] == name


async def test_the_author_of_a_schema_is_who_registered_it(guarded: Guarded, name: str) -> None:
    def registering(definition: str, **more: str) -> tuple[str, dict[str, str]]:
        schema = {"subject": name, "type": "avro", "definition": definition}
        return "schema.register", schema | more

    async with guarded.connect(await guarded.token(name, f"schemas:{name}")) as client:
        await client.admin(*registering('"int"', by="somebody else"))
        await client.admin("schema.compatibility", {"subject": name, "compatibility": "none"})
    await guarded.root.admin(*registering('"long"'))
    await guarded.root.admin(*registering('"string"', by="a pipeline"))
    versions = await guarded.root.admin("schema.versions", {"subject": name})
    assert [version["created_by"] for version in versions] == [name, "root", "a pipeline"]


async def test_tokens_are_created_listed_and_revoked_over_http(guarded: Guarded, name: str) -> None:
    body = {"principal": name, "grants": [f"consume:/default/{name}"], "note": "for a test"}
    made = await guarded.http.ok("POST", "/api/v1/tokens", body, headers=bearer(ROOT))
    assert made["enforced"] and made["token"].startswith(f"sulina_{made['id']}_")
    rows = await guarded.http.ok("GET", "/api/v1/tokens", headers=bearer(ROOT))
    [row] = [row for row in rows if row["id"] == made["id"]]
    assert (row["principal"], row["note"], row["expires_us"]) == (name, "for a test", None)
    assert "token" not in row and "digest" not in row
    await guarded.http.ok("DELETE", f"/api/v1/tokens/{made['id']}", headers=bearer(ROOT))
    again = await guarded.http("DELETE", f"/api/v1/tokens/{made['id']}", headers=bearer(ROOT))
    again.problem(404, "not-found")


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with Shell() as running:
        yield running


async def test_a_token_is_created_used_listed_and_revoked(
    guarded: Guarded, shell: Shell, name: str
) -> None:
    async def sulina(*words: str, token: str = ROOT, code: int = 0) -> CommandResult:
        return await shell(
            "--url", guarded.server.addresses.url, "--token", token, *words, code=code
        )

    made = await sulina(
        *("security", "token", "create", name, "--grant", f"produce:/default/{name}"),
        *("--expires", "2h", "--note", "for a test"),
    )
    token = made.stdout.strip()
    assert "expires: 20" in made.stderr and "yet" not in made.stderr
    await sulina("produce", f"/default/{name}", "hello", token=token)
    denied = await sulina("peek", f"/default/{name}", token=token, code=1)
    assert f"sulina security grant {name} consume:/default/{name}" in denied.stderr
    allowed = await sulina("security", "grant", name, f"consume:/default/{name}")
    assert allowed.stdout == f"grants of {name}: produce:/default/{name}, consume:/default/{name}\n"
    assert (await sulina("peek", f"/default/{name}", token=token)).stdout == "hello\n"
    rows: list[dict[str, Any]] = (await sulina("security", "token", "list", "--json")).json()
    [row] = [row for row in rows if row["principal"] == name]
    assert token not in str(rows) and row["note"] == "for a test"
    assert name in (await sulina("security", "list")).stdout
    await sulina("security", "withdraw", name, f"consume:/default/{name}")
    await sulina("security", "token", "revoke", row["id"])
    refused = await sulina("produce", f"/default/{name}", "again", token=token, code=1)
    assert "wrong, or was revoked" in refused.stderr
    assert "there is no token" in (await sulina("security", "token", "revoke", "x", code=1)).stderr
    made = await sulina("security", "role", "create", name, "--permissions", "Consume, Replicate")
    assert made.stdout == f"role {name} permits Consume, Replicate\n"
    where = ("--scope", "namespace", "--resource", "default")
    bind = ("security", "binding", "create", name, "--principal", name, "--roles", name, *where)
    assert (await sulina(*bind)).stdout == f"{name} has {name} on the namespace default\n"
    listed = "".join((await sulina("security", "list")).stdout.split())
    assert f"binding{name}ofthenamespacedefault:{name}" in listed
    rows = (await sulina("security", "list", "--json")).json()
    [row] = [row for row in rows if row["principal"] == name]
    assert row["grants"] == [f"produce:/default/{name}"]
    assert row["bindings"][0]["grants"] == ["consume:/default/*"]
    for kind in ("role", "binding"):
        assert name in (await sulina("security", kind, "list")).stdout
    await sulina("security", "binding", "delete", name, *where)
    gone = await sulina("security", "binding", "delete", name, *where, code=1)
    assert "there is no binding" in gone.stderr
    await sulina(*bind)
    await sulina("security", "role", "delete", name)
    await sulina("security", "delete", name, "--yes")
    assert name not in (await sulina("security", "list")).stdout
    wrong = await sulina("security", "grant", name, "own:everything", code=1)
    assert "is not a grant" in wrong.stderr


async def test_without_a_token_the_error_says_how_to_get_one(
    guarded: Guarded, shell: Shell
) -> None:
    said = (await shell("--url", guarded.server.addresses.url, "topic", "list", code=1)).stderr
    assert "requires a token" in said and "sulina security token create" in said


def test_the_root_token_is_created_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "root"
    root = read_root(file)
    assert len(root) >= 32 and read_root(file) == root
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(Refused, match="--auth"):
        read_root(tmp_path / "no-folder" / "root")


def test_without_options_no_token_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ROOT_VARIABLE not in os.environ
    assert SecurityOptions().auth_settings() is None
    key = tmp_path / "key"
    key.write_text("a key that is long enough\n")
    found = SecurityOptions(tmp_path / "root", key).auth_settings()
    assert found is not None and found.jwt is not None
    assert found.jwt.key == b"a key that is long enough"
    assert found.root not in repr(found)
    monkeypatch.setenv(ROOT_VARIABLE, "given by the environment")
    found = SecurityOptions().auth_settings()
    assert found is not None and found.root == "given by the environment"


def test_starting_a_broker_prints_who_can_use_it() -> None:
    assert "FULL ACCESS" in security_warning("0.0.0.0", required=False, secure=True)
    assert "--auth" in security_warning("127.0.0.1", required=False, secure=False)
    assert "--tls-cert" in security_warning("10.0.0.1", required=True, secure=False)
    assert security_warning("10.0.0.1", required=True, secure=True) == ""
