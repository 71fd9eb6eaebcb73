"""A real Chromium, driven by its DevTools protocol; everything that it logs as an error is kept.

``page_script`` below is what tests use in place of a person: it finds things by the text that a
person reads.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

PROGRAM = shutil.which("chromium") or shutil.which("google-chrome")
HOW_TO_INSTALL = "no Chromium is installed: apt-get install chromium"
_SECONDS = 30.0
_ANSWER_SECONDS = 3.0
_HELPERS = Path(__file__).with_name("page_script.js")
_AXE = Path(__file__).parent / "vendor" / "axe.min.js"


class Browser:
    """One tab. Every wait ends after half a minute."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.errors: list[str] = []
        """What the browser logged: errors of scripts, and what a policy blocked."""

    async def listen(self) -> None:
        async for message in self._socket:
            found = json.loads(message.data)
            if "id" in found:
                future = self._waiting.pop(found["id"], None)
                if future is not None and not future.done():
                    future.set_result(found)
            else:
                self._event(found["method"], found.get("params", {}))

    def _event(self, method: str, given: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = given["exceptionDetails"]
            thrown = details.get("exception", {}).get("description", "")
            self.errors.append(f"{details['text']} {thrown}")
        elif method == "Log.entryAdded" and given["entry"]["level"] == "error":
            entry = given["entry"]
            self.errors.append(f"{entry['text']} {entry.get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "assert"):
            self.errors.append(str([each.get("value") for each in given["args"]]))

    async def send(self, method: str, **given: Any) -> dict[str, Any]:
        self._number += 1
        future = asyncio.get_running_loop().create_future()
        self._waiting[self._number] = future
        await self._socket.send_json({"id": self._number, "method": method, "params": given})
        answer = await asyncio.wait_for(future, _SECONDS)
        assert "error" not in answer, (method, answer)
        result: dict[str, Any] = answer["result"]
        return result

    async def goto(self, url: str) -> None:
        """Open a page from scratch, also if only the part after # differs."""
        await self.send("Page.navigate", url="about:blank")
        await self.until("location.href === 'about:blank'")
        await self.send("Page.navigate", url=url)
        await self.until("document.readyState === 'complete' && Boolean(window.person)")

    async def run(self, script: str) -> Any:
        """The value of an expression in the page; waits for a promise."""
        answer = await self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, (script, answer["exceptionDetails"])
        return answer["result"].get("value")

    async def until(self, script: str) -> Any:
        """Wait until an expression is true; returns its value."""
        async with asyncio.timeout(_SECONDS):
            while True:
                # While another page is loading, a call may fail or get no answer.
                with suppress(AssertionError, TimeoutError):
                    async with asyncio.timeout(_ANSWER_SECONDS):
                        if value := await self.run(script):
                            return value
                await asyncio.sleep(0.03)

    async def _person(self, call: str, *given: str) -> Any:
        arguments = ", ".join(map(json.dumps, given))
        try:
            return await self.until(f"person.{call}({arguments})")
        except TimeoutError:
            text = await self.run("document.body.innerText")
            raise AssertionError(f"{call}{given} found nothing in: {text}") from None

    async def sees(self, *texts: str) -> None:
        """Wait until all of these can be read in the page."""
        for text in texts:
            await self._person("sees", text)

    async def click(self, text: str) -> None:
        """Click the button, link or summary with this text."""
        await self._person("click", text)

    async def fill(self, label: str, text: str) -> None:
        """Type into the field with this label."""
        await self._person("fill", label, text)

    async def press(self, key: str) -> None:
        await self.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        await self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def size(self, width: int, height: int) -> None:
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    async def theme(self, name: str) -> None:
        """Light or dark, as the system would say, and without transitions between them."""
        features = [
            {"name": "prefers-color-scheme", "value": name},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        await self.send("Emulation.setEmulatedMedia", features=features)

    async def screenshot(self, path: Path) -> None:
        found = await self.send("Page.captureScreenshot", format="png")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(found["data"]))

    async def accessibility_problems(self) -> list[str]:
        """What axe finds against WCAG 2.2 AA and its own best practices."""
        if not await self.run("Boolean(window.axe)"):
            await self.run(_AXE.read_text() + "\n;true")
        found = await self.run(
            "axe.run(document, {resultTypes: ['violations']}).then((all) => all.violations.map("
            "(each) => each.id + ': ' + each.help + ' ' + each.nodes.map((node) => "
            "node.html.slice(0, 200) + ' ' + node.any.map((one) => one.message).join(' ')"
            ").join(' | ')))"
        )
        return [str(each) for each in found]


@asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Browser]:
    """Chromium with an empty profile in ``folder``."""
    assert PROGRAM is not None
    process = subprocess.Popen(
        [
            PROGRAM,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--remote-debugging-port=0",
            f"--user-data-dir={folder}",
            "about:blank",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_SECONDS):
            place = folder / "DevToolsActivePort"
            while not (place.exists() and "\n" in place.read_text()):
                await asyncio.sleep(0.05)
        port = place.read_text().split("\n")[0]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                targets = await answer.json()
            page = next(each for each in targets if each["type"] == "page")
            url = page["webSocketDebuggerUrl"]
            async with session.ws_connect(url, max_msg_size=1 << 28) as socket:
                browser = Browser(socket)
                listening = asyncio.create_task(browser.listen())
                for part in ("Page", "Runtime", "Log", "Network"):
                    await browser.send(f"{part}.enable")
                await browser.send(
                    "Page.addScriptToEvaluateOnNewDocument", source=_HELPERS.read_text()
                )
                await browser.size(1440, 900)
                try:
                    yield browser
                finally:
                    listening.cancel()
                    await asyncio.wait([listening])
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
