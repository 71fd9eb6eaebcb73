"""What the deployment tells each function is what the function reads."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from functions.package import FUNCTIONS, PYTHON

ROOT = Path(__file__).parents[2]
EVERYWHERE = {"SULINA_CLUSTER"}
"""What infra/functions/lambda_function.py sets for all."""


def read_by(function: str) -> tuple[set[str], set[str]]:
    """The variables that a function requires, and all that it reads, also in shared modules."""
    files = [*(ROOT / "functions" / function).glob("*.py")]
    text = "".join(path.read_text() for path in files)
    files += [
        path
        for path in (ROOT / "functions" / "shared").glob("*.py")
        if f"functions.shared.{path.stem} " in text
    ]
    needs, knows = set(), set()
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("required", "optional", "flag")
                and isinstance(node.args[0], ast.Constant)
            ):
                name = str(node.args[0].value)
                knows.add(name)
                if node.func.id == "required":
                    needs.add(name)
    return needs, knows


def told_to(function: str) -> set[str]:
    """The variables that infra/functions/functions.py gives to a function."""
    tree = ast.parse((ROOT / "infra" / "functions" / "functions.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "FunctionSpec":
            given = {each.arg: each.value for each in node.keywords}
            environment = given["environment"]
            if ast.literal_eval(given["name"]) == function:
                assert isinstance(environment, ast.Dict)
                return {ast.literal_eval(key) for key in environment.keys if key is not None}
    raise AssertionError(f"infra/functions/functions.py has no {function}")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_is_told_all_that_it_needs_and_nothing_that_it_does_not_know(
    function: str,
) -> None:
    needs, knows = read_by(function)
    told = told_to(function) | EVERYWHERE
    if "SULINA_DISCOVERY" in told:
        needs.discard("SULINA_BROKERS")  # one of the two will do
    assert needs <= told
    assert told - EVERYWHERE <= knows


def test_archives_are_for_the_runtime_that_is_deployed() -> None:
    text = (ROOT / "infra" / "functions" / "lambda_function.py").read_text()
    assert f'"python{PYTHON}"' in text
