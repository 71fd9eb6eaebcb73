"""The tour in docs/http.md works as it is written."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.server import SulinaProcess

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
