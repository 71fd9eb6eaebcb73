"""Each page on a real broker with traffic, used as a person would use it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import sulina
from sulina.operations.messages import NewMessage
from tests.console.browser import Browser
from tests.console.conftest import ORDERS, ROOT, Site, picture, sign_in

pytestmark = pytest.mark.asyncio(loop_scope="session")
CONSOLE = Path(__file__).parents[2] / "broker_containers" / "doors" / "http" / "console"
TOPIC = "#/topics/default/orders"
LAKE = "#/lake?topic=/default/orders"
PAGES = {
    "": "Busiest topics",
    "#/topics": ORDERS,
    TOPIC: "customer-",
    f"{TOPIC}?tab=subscriptions&subscription=billing": "Nobody is connected",
    f"{TOPIC}?tab=ledgers": "being written",
    f"{TOPIC}?tab=policies": "the default",
    f"{TOPIC}?tab=schema": "The topic has no schema",
    f"{TOPIC}?tab=erase": "Nothing was erased",
    "#/topics/default/clicks?tab=partitions": "/default/clicks-part-1",
    "#/attention": "no consumers",
    "#/brokers": "broker-1",
    "#/brokers/broker-1": "it takes appends",
    "#/balance": "nothing to balance",
    "#/storage": "journal",
    LAKE: "sulina sql",
    "#/lake?topic=/default/clicks": "Partition furthest behind",
    "#/schemas": "No schema is registered",
    "#/security": "There are no principals",
    "#/security?tab=tokens": "No token was created",
    "#/security?tab=roles": "Bindings",
    "#/security?tab=audit": "Outcome",
    "#/settings": "broker.cache_bytes",
    "#/settings?tab=history": "Nothing was changed",
    "#/operations": "topic.create",
    "#/operations/get.topic.describe": "GET /api/v1/topics/{namespace}/{topic}",
    "#/nowhere": "There is no such page",
}
"""What can be read on each page."""


async def test_every_page_can_be_read_by_everybody_and_logs_no_error(
    browser: Browser, site: Site
) -> None:
    await site.sampler.take()
    await sign_in(browser, site)
    problems: dict[str, list[str]] = {}
    for number, (page, text) in enumerate(PAGES.items()):
        await browser.theme("dark" if number % 2 else "light")
        await browser.run(f"location.hash = {json.dumps(page or '#/')}")
        await browser.sees(text)
        if found := await browser.accessibility_problems():
            problems[page] = found
    await browser.theme("light")
    assert problems == {}
    assert browser.errors == []


async def test_a_phone_and_a_wall_show_everything_without_scrolling_sideways(
    browser: Browser, site: Site
) -> None:
    for width, height in ((320, 700), (3840, 2160)):
        await browser.size(width, height)
        await sign_in(browser, site)
        for page in ("", "#/topics", TOPIC, "#/settings", "#/storage", LAKE):
            await browser.run(f"location.hash = {json.dumps(page or '#/')}")
            await browser.sees(PAGES[page])
            assert await browser.run("document.documentElement.scrollWidth <= innerWidth"), page
            tables = "[...document.querySelectorAll('.table')]"
            assert await browser.run(
                f"{tables}.every((each) => each.scrollWidth <= each.clientWidth"
                " && each.scrollHeight <= each.clientHeight)"
            ), page
    await browser.size(1440, 900)
    assert browser.errors == []


async def test_topics_are_searched_sorted_and_cut_by_the_broker(
    browser: Browser, site: Site
) -> None:
    for number in range(60):
        await site.client.admin.topics.create(f"/default/many-{number:02}")
    await sign_in(browser, site, "#/topics?text=many")
    await browser.sees("1 to 50 of 60", "/default/many-00")
    await browser.click("Next")
    await browser.sees("51 to 60 of 60", "/default/many-59")
    await browser.press("/")
    assert await browser.run("document.activeElement.type") == "search"
    await browser.fill("Search by name", "ORDERS")
    await browser.sees("1 to 1 of 1", ORDERS)
    assert "text=ORDERS" in await browser.run("location.hash")
    await browser.goto(f"{site.url}/#/topics?order=records&descending=true")
    await browser.sees(ORDERS)
    first = "document.querySelector('main tbody a').innerText"
    assert await browser.run(first) == ORDERS
    await browser.click("Messages ↓")
    await browser.until(f"{first} != {ORDERS!r}")
    assert browser.errors == []


async def test_a_message_is_found_by_its_key_and_shown(browser: Browser, site: Site) -> None:
    await sign_in(browser, site, TOPIC)
    await browser.fill("Key", "customer-7")
    await browser.click("Search")
    await browser.sees("40 shown, 2,001 looked at; that is all")
    assert "key=customer-7" in await browser.run("location.hash")
    await picture(browser, "messages")
    await browser.click("1,957")
    await browser.sees("Message 1,957", '"order": 1957', "customer-7")
    assert await browser.accessibility_problems() == []
    await browser.click("Bytes")
    await browser.sees("000000  7b 22 6f 72")
    await browser.click("Copy as…")
    await browser.sees(f"sulina peek {ORDERS} --from 1957 --count 1", "$SULINA_TOKEN")
    await browser.click("Close")

    await browser.fill("Key", "")
    await browser.fill("Text", "colour=green")
    await browser.click("Search")
    await browser.sees("1 shown")
    await browser.click("2,000")
    await browser.sees("colour", "green")
    assert browser.errors == []


async def test_a_key_is_found_in_all_partitions_at_once(browser: Browser, site: Site) -> None:
    topic = "/default/split"
    await site.client.admin.topics.create(topic, partitions=3)
    async with site.client.producer(topic) as producer:
        for number in range(70):
            await producer.send(f"order {number}".encode(), key="ann")
            await producer.send(b"another's", key=f"customer-{number}")
    for part in range(3):  # as a producer that does not go by the key
        letter = NewMessage(f"odd {part}".encode(), b"ann")
        await site.client.admin.messages.publish(f"{topic}-part-{part}", [letter])

    await sign_in(browser, site, "#/topics/default/split?key=ann")
    await browser.sees("50 shown", "Partition")
    texts = "[...document.querySelectorAll('[aria-label=Messages] .payload')]"
    rows = f"{texts}.map((each) => each.innerText)"
    newest = ["odd 2", "odd 1", "odd 0", *(f"order {number}" for number in range(69, -1, -1))]
    assert await browser.run(rows) == newest[:50]
    assert await browser.accessibility_problems() == []
    await browser.click("More")
    await browser.sees("73 shown", "that is all")
    assert await browser.run(rows) == newest
    await browser.run(f"{texts}[0].click()")
    await browser.sees("odd 2")
    await browser.click("Copy as…")
    await browser.sees(f"sulina peek {topic}-part-2 --from")
    await browser.click("Close")
    await browser.fill("Partition", f"{topic}-part-1")
    await browser.sees("From offset")
    await browser.until(f"{rows}.includes('odd 1') && !{rows}.includes('odd 2')")

    await sign_in(browser, site, "#/topics/default/split")
    await browser.sees("50 shown")
    await browser.click("Live tail")
    await browser.sees("New messages appear on top")
    letter = NewMessage(b"while one looks")
    await site.client.admin.messages.publish(f"{topic}-part-1", [letter])
    await browser.sees("while one looks")
    assert browser.errors == []


async def test_the_overview_says_what_changed_last(browser: Browser, site: Site) -> None:
    await site.sampler.take()
    await site.client.admin.topics.create("/default/changed")
    await site.client.admin.topics.policy("/default/changed", retention_bytes=1 << 30)
    await sign_in(browser, site)
    await browser.sees("Changed last", "topic create", "topic policy")
    rows = "document.querySelector('[aria-label=\"Changed last\"] tbody').innerText"
    first = (await browser.run(rows)).split("done")[0]
    assert "topic policy" in first and "root" in first
    await browser.click("/default/changed")
    await browser.sees("There are no messages here")
    assert browser.errors == []


async def test_new_messages_appear_in_the_live_tail(browser: Browser, site: Site) -> None:
    await sign_in(browser, site, "#/topics/default/tail")
    await browser.sees("It does not exist")
    browser.errors.clear()  # of the answer 404
    await site.client.admin.topics.create("/default/tail")
    await sign_in(browser, site, "#/topics/default/tail")
    await browser.sees("There are no messages here")
    await browser.click("Live tail")
    await browser.sees("New messages appear on top")
    await browser.click("Publish")
    await browser.fill("Payload", "from a person")
    await browser.fill("Key", "k-1")
    await browser.click("Publish a message")
    await browser.sees("Published at offset 0")
    await browser.click("Close")
    await browser.sees("from a person", "k-1")
    assert browser.errors == []


async def run_copied(browser: Browser, site: Site) -> None:
    """Run both commands that the dialog offers, for sulina and for curl."""
    shown = "[...document.querySelectorAll('dialog[open] .command')]"
    words = "[each.querySelector('span').textContent, each.querySelector('code').textContent]"
    commands = dict(await browser.run(f"{shown}.map((each) => {words})"))
    assert list(commands) == ["sulina", "curl"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    place = {"SULINA_URL": site.client_url, "SULINA_TOKEN": ROOT, "PATH": path}
    script = "set -e\n" + "\n".join(commands.values())
    process = await asyncio.create_subprocess_exec("sh", "-c", script, env={**os.environ, **place})
    assert await process.wait() == 0


async def test_a_schema_is_registered_by_the_copied_commands(browser: Browser, site: Site) -> None:
    definition = """{"type": "object", "title": "an order's form"}"""
    await sign_in(browser, site, "#/schemas")
    await browser.click("Register a schema")
    await browser.fill("Subject", "orders")
    await browser.fill("Definition", definition)
    await run_copied(browser, site)
    versions = await site.client.admin.schemas.versions("orders")
    found = await site.client.admin.schemas.get("orders")
    await site.client.admin.schemas.delete("orders")
    assert len(versions) == 1 and json.loads(found.definition) == json.loads(definition)
    assert browser.errors == []


async def test_versions_of_a_schema_are_compared(browser: Browser, site: Site) -> None:
    for fields in ("a", "ab", "abc"):
        properties = {each: {"type": "string"} for each in fields}
        definition = json.dumps({"type": "object", "properties": properties})
        await site.client.admin.schemas.register("letters", "json_schema", definition=definition)
    await sign_in(browser, site, "#/schemas/letters")
    await browser.sees("Version 3, compared with version 2")
    added = "[...document.querySelectorAll('.added')].map((each) => each.innerText).join(' ')"
    await browser.until(f"{added}.includes('\"c\"') && !{added}.includes('\"b\"')")
    await browser.fill("Compare with", "1")
    await browser.sees("Version 3, compared with version 1")
    await browser.until(f"{added}.includes('\"c\"') && {added}.includes('\"b\"')")
    assert await browser.accessibility_problems() == []
    await site.client.admin.schemas.delete("letters")
    assert browser.errors == []


async def test_copied_commands_do_what_the_page_does(browser: Browser, site: Site) -> None:
    topic, payload = "/default/copied", """it's "$HOME" & `more`"""
    await site.client.admin.topics.create(topic)
    await sign_in(browser, site, "#/topics/default/copied")
    await browser.click("Publish")
    await browser.fill("Payload", payload)
    await browser.fill("Key", "k 1")
    await browser.fill("Attribute", "colour")
    await browser.fill("Value", "light green")
    await run_copied(browser, site)
    found = (await site.client.admin.messages.search(topic)).messages
    expected = (payload.encode(), b"k 1", {"colour": "light green"})
    assert [(each.payload, each.key, dict(each.attributes)) for each in found] == [expected] * 2
    assert browser.errors == []


async def test_a_cursor_is_moved_after_a_look_at_where_it_lands(
    browser: Browser, site: Site
) -> None:
    await sign_in(browser, site, f"{TOPIC}?tab=subscriptions&subscription=billing")
    await browser.click("Seek")
    await browser.fill("To", "offset")
    await browser.fill("Offset", "1500")
    await browser.sees("It lands at offset 1,500", "1,500 messages are skipped", '"order": 1500')
    await browser.click("Copy as…")
    await browser.sees(f"sulina subscription seek {ORDERS} billing --to 1500")
    await browser.click("Move the cursor")
    await browser.until("!document.querySelector('dialog')")
    found = await site.client.admin.subscriptions.describe(ORDERS, "billing")
    assert found.position == 1500
    await site.client.admin.subscriptions.seek(ORDERS, "billing", sulina.Start.earliest())
    assert browser.errors == []


async def test_messages_are_erased_after_they_were_counted(browser: Browser, site: Site) -> None:
    topic = "/default/erased"
    async with site.client.producer(topic) as producer:
        for number in range(9):
            await producer.send(b"private", key="ann" if number % 3 else "bob")
    await sign_in(browser, site, "#/topics/default/erased?tab=erase")
    await browser.click("Erase messages")
    await browser.fill("Keys", "ann")
    await browser.sees("6 messages are erased", "9 were looked at.")
    await browser.click("Copy as…")
    await browser.sees(f"sulina topic erase {topic} --key ann")
    await browser.fill(f"Type {topic}", topic)
    await browser.click("Erase for good")
    await browser.sees("The request is stored")
    await browser.click("Close")
    await browser.until("document.querySelector('main').innerText.includes('done')")
    assert await browser.accessibility_problems() == []
    left = await site.client.admin.messages.search(topic, key="ann")
    assert left.messages == ()
    assert browser.errors == []


async def test_what_retention_would_remove_is_shown_before_it_is_changed(
    browser: Browser, site: Site
) -> None:
    await sign_in(browser, site, f"{TOPIC}?tab=policies")
    await browser.sees("retention bytes")
    script = "[...document.querySelectorAll('main tr')].find((row) => row.innerText.startsWith("
    await browser.until(f"{script}'retention bytes')).querySelector('button')?.click() ?? true")
    await browser.fill("retention bytes", "1000000000")
    await browser.sees("Nothing leaves the topic at once")
    await browser.click("Copy as…")
    await browser.sees(f"sulina topic policy {ORDERS} retention_bytes=1000000000")
    assert browser.errors == []


@dataclass
class Row:
    name: str


async def test_a_topic_becomes_a_table_and_its_rows_are_shown(browser: Browser, site: Site) -> None:
    async with site.client.producer("/default/tabled") as producer:
        await producer.send(b"a row of the table")
    await site.client.admin.ledgers.offload("/default/tabled")
    await sign_in(browser, site, "#/lake?text=tabled&topic=/default/tabled")
    await browser.sees("Newest object", "1 to 1 of 1")
    await browser.click("Create the table")
    await browser.click("Create the table")
    await browser.sees("default__tabled", "The newest rows of the table", "a row of the table")
    async with site.client.producer("/default/tabled", schema=Row) as typed:
        await typed.send(Row("typed"))
    await site.client.admin.ledgers.offload("/default/tabled")
    while not all(each.key for each in await site.client.admin.ledgers.list("/default/tabled")):
        await asyncio.sleep(0.05)
    await browser.click("Bring it up to date")
    await browser.click("Bring it up to date")
    await browser.sees("null in these columns, defaults or not", "Rewrite objects")
    assert await browser.accessibility_problems() == []
    assert browser.errors == []


async def test_a_drain_shows_how_far_it_is(browser: Browser, site: Site) -> None:
    await sign_in(browser, site, "#/brokers")
    await browser.sees("broker-1")
    for left, words, width in (
        (8, "8 topics are left", "0%"),
        (2, "2 topics are left", "75%"),
        (0, "it has no topics any more", "100%"),
    ):
        await browser.run(
            "(async () => {"
            "const { Draining } = await import('/console/pages/brokers.js');"
            "const { html, render } = await import('/console/html.js');"
            "let place = document.getElementById('drained');"
            "if (!place) document.body.append(place = Object.assign("
            "document.createElement('div'), { id: 'drained' }));"
            f"const row = {{ broker: 'broker-9', mode: 'draining', topics: {left} }};"
            "render(html`<${Draining} rows=${[row]} />`, place);"
            "})()"
        )
        await browser.sees("broker-9", words)
        meter = f"document.querySelector('#drained [aria-label=\"{left} topics left\"] div')"
        assert await browser.run(f"{meter}.style.width") == width
    assert browser.errors == []


async def test_settings_that_were_changed_are_found_and_undone(
    browser: Browser, site: Site
) -> None:
    await site.client.admin.config.set("http.max_peek_messages", value=77, broker="broker-1")
    await sign_in(browser, site, "#/settings?changed=true")
    await browser.sees("http.max_peek_messages", "changed for this broker", "broker-1: 77")
    names = "document.querySelector('main tbody').innerText"
    assert "broker.cache_bytes" not in await browser.run(names)
    await browser.run("location.hash = '#/settings?tab=history'")
    await browser.click("Undo")
    await browser.sees("It becomes what it is for all brokers again")
    await browser.click("Copy as…")
    await browser.sees("sulina config unset http.max_peek_messages --broker broker-1")
    await browser.click("Undo the change of")
    await browser.until("!document.querySelector('dialog')")
    [row] = [
        each
        for each in (await site.client.admin.config.list()).settings
        if each.name == "http.max_peek_messages"
    ]
    assert row.source == "default" and row.brokers == {}
    assert browser.errors == []


async def test_a_topic_is_deleted_only_after_its_name_was_typed(
    browser: Browser, site: Site
) -> None:
    await site.client.admin.topics.create("/default/doomed")
    await sign_in(browser, site, "#/topics/default/doomed")
    await browser.click("Delete")
    await browser.sees("Type /default/doomed to confirm")
    ready = "!document.querySelector('dialog button[type=submit]').disabled"
    assert not await browser.run(ready)
    await browser.fill("Type /default/doomed", "/default/doomed")
    await browser.until(ready)
    await browser.click("Delete the topic")
    await browser.until("location.hash === '#/topics'")
    found = await site.client.admin.topics.search(text="doomed")
    assert found.total == 0
    browser.errors.clear()  # the page may have asked for the topic once more


async def test_a_caller_with_few_rights_sees_and_may_do_no_more(
    browser: Browser, site: Site
) -> None:
    made = await site.client.admin.tokens.create("reader", grants=[f"consume:{ORDERS}"])
    await sign_in(browser, site, "#/security")
    await browser.click("Why")
    await browser.sees("What reader may do, and why", "its own grant")
    assert await browser.accessibility_problems() == []
    await sign_in(browser, site, token=made.token)
    await browser.sees("which you do not have", "reader")
    menu = await browser.run("document.querySelector('#nav ul').innerText")
    assert "Topics" in menu and "Security" not in menu and "Settings" not in menu
    assert await browser.accessibility_problems() == []
    await browser.sees("Your topics", ORDERS)
    await browser.click("All topics")
    await browser.sees("1 to 1 of 1", ORDERS)
    await browser.click(ORDERS)
    await browser.sees("customer-")
    page = await browser.run("document.querySelector('main').innerText")
    assert "Delete" not in page and "Publish\n" not in page
    await browser.click("Lake")
    await browser.sees(ORDERS, "1 to 1 of 1")
    await browser.click(ORDERS)
    await browser.sees("The newest messages", "sulina sql", "customer-")
    assert browser.errors == []
    sender = await site.client.admin.tokens.create("sender", grants=[f"produce:{ORDERS}"])
    await sign_in(browser, site, TOPIC, token=sender.token)
    await browser.sees("You may not read messages of this topic", "Publish")
    assert browser.errors == []
    await sign_in(browser, site, token=made.token)
    await browser.run("location.hash = '#/settings'")
    await browser.sees("The token does not allow this", "cluster on everything")
    await site.client.admin.tokens.revoke(made.id)
    await browser.run("location.hash = '#/topics'")
    await browser.sees("Sign in to Sulina", "You are signed out")
    browser.errors.clear()


async def test_every_command_that_the_console_names_exists() -> None:
    reference = CONSOLE.parents[3] / "docs" / "reference" / "cli.md"
    headings = re.findall(r"^## sulina (.*)$", reference.read_text(), re.MULTILINE)
    known = {tuple(each.split()) for each in headings}
    named = set()
    for file in CONSOLE.rglob("*.js"):
        for found in re.findall(
            r"[`\">]sulina ((?:[a-z-]+ )*[a-z-]+(?![a-z$-]))", file.read_text()
        ):
            words = tuple(found.split())
            named.add(words)
            assert any(words[: len(each)] == each for each in known), (file.name, found)
    assert ("topic", "list") in named and len(named) > 20
