"""The command that runs Danube's own tests: it reads their outcome and judges it by the list."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.danube.conformance import suites
from tests.danube.conformance.command import described, main
from tests.danube.conformance.differences import LIST, Difference, compare, read_list
from tests.danube.conformance.results import (
    Case,
    Outcome,
    Unreadable,
    read_cargo,
    read_go,
    read_junit,
)
from tests.danube.conformance.servers import Servers

PASSED, FAILED, SKIPPED = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED
CARGO = """
   Compiling something v0.1.0
     Running tests/one.rs (target/debug/deps/one-1c2d)

running 3 tests
test whole ... ok
test torn ... a line that the test prints
FAILED
test other ... ignored, needs more

failures:

---- torn stdout ----
Error: no message came
and more

failures:
    torn

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s

     Running tests/two.rs (target/debug/deps/two-3e4f)

running 1 test
test whole ... a word ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""
GO = """go: downloading something
{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"a_test.go:7: no message\\n"}
{"Action":"output","Package":"p","Test":"TestA/part","Output":"in a part\\n"}
{"Action":"fail","Package":"p","Test":"TestA/part"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"fail","Package":"p"}
"""
JUNIT = """<testsuites><testsuite>
<testcase classname="tests.test_a" name="test_good"/>
<testcase classname="tests.test_a" name="test_bad">
<failure message="short">long</failure></testcase>
<testcase classname="tests.test_a" name="test_broken"><error message="no fixture"/></testcase>
<testcase classname="tests.test_a" name="test_later"><skipped/></testcase>
</testsuite></testsuites>"""


def test_the_output_of_cargo_is_read_even_where_tests_print() -> None:
    assert read_cargo(CARGO) == [
        Case("one::whole", PASSED),
        Case("one::torn", FAILED, "Error: no message came\nand more"),
        Case("one::other", SKIPPED),
        Case("two::whole", PASSED),
    ]


def test_a_test_of_cargo_that_was_not_read_is_noticed() -> None:
    with pytest.raises(Unreadable, match="two: read"):
        read_cargo(CARGO.replace("a word ok", "what"))


def test_the_output_of_go_is_read_with_parts_as_one_test() -> None:
    assert read_go("danube-go", GO) == [
        Case("danube-go/TestA", FAILED, "a_test.go:7: no message\nin a part"),
        Case("danube-go/TestB", PASSED),
        Case("danube-go/TestC", SKIPPED),
    ]


def test_the_xml_of_pytest_and_maven_is_read() -> None:
    assert read_junit("danube-py", [JUNIT]) == [
        Case("danube-py/test_a::test_good", PASSED),
        Case("danube-py/test_a::test_bad", FAILED, "short\nlong"),
        Case("danube-py/test_a::test_broken", FAILED, "no fixture"),
        Case("danube-py/test_a::test_later", SKIPPED),
    ]


def test_a_run_is_good_if_exactly_the_listed_tests_fail() -> None:
    listed = [Difference("s/f::bad", "stricter here")]
    cases = [Case("s/f::good", PASSED), Case("s/f::bad", FAILED), Case("s/f::later", SKIPPED)]
    verdict = compare(cases, listed)
    assert verdict.good and verdict.passed == verdict.skipped == 1
    assert described(verdict).splitlines() == [
        "1 passed, 1 failed as expected, 1 skipped",
        "  as expected: s/f::bad: stricter here",
    ]


def test_any_other_failure_and_a_difference_that_passes_or_is_gone_fail_a_run() -> None:
    listed = [Difference("s/f::healed", "r"), Difference("s/f::gone", "r")]
    cases = [Case("s/f::healed", PASSED), Case("s/f::bad", FAILED, "why")]
    verdict = compare(cases, listed)
    assert not verdict.good
    assert described(verdict).splitlines() == [
        "1 passed, 1 failed",
        "  passes, but is listed as a difference: s/f::healed",
        "  listed as a difference, but not run: s/f::gone",
        "  FAILED s/f::bad",
        "    why",
    ]


def test_differences_of_files_that_were_not_run_are_not_missed() -> None:
    listed = [Difference("s/other::x", "r"), Difference("danube-go/TestX", "r")]
    assert compare([Case("s/f::good", PASSED)], listed).good
    assert compare([Case("danube-go/TestA", PASSED)], listed).absent == ("danube-go/TestX",)


def test_a_difference_may_be_expected_on_some_servers_or_with_some_rules_only() -> None:
    (found,) = read_list('[[difference]]\ntest="s/f::x"\nreason="r"\nservers=["redirect"]')
    assert found.applies("redirect", "danube") and not found.applies("one", "danube")
    (found,) = read_list('[[difference]]\ntest="s/f::x"\nreason="r"\nrules="exact"')
    assert found.applies("one", "exact") and not found.applies("one", "danube")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[[difference]]\ntest="a"', "needs test and reason"),
        ('[[difference]]\ntest="a"\nreason="r"\nserver="one"', "needs test and reason"),
        ('[[difference]]\ntest="a"\nreason="r"\n' * 2, "listed twice: a"),
    ],
)
def test_a_wrong_list_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_list(text)


def test_the_list_of_this_checkout_can_be_read() -> None:
    read_list(LIST.read_text())


def test_a_missing_checkout_or_program_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "integration_tests").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--danube", str(tmp_path), "--go", str(tmp_path)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"danube: left out: {tmp_path} is not a checkout of danube: it has no danube-broker/tests",
        "danube-py: left out: no checkout: pass --python PATH",
        "danube-go: left out: not installed: go",
        "danube-java: left out: no checkout: pass --java PATH",
    ]
    with pytest.raises(SystemExit):
        main(["--on", "two"])
    assert "unknown servers: two" in capsys.readouterr().err


def test_a_python_suite_runs_in_the_checkout_against_the_servers(tmp_path: Path) -> None:
    folder = tmp_path / "integration_tests"
    folder.mkdir()
    (folder / "conftest.py").touch()
    (folder / "test_url.py").write_text(
        "import os\n\ndef test_url():\n    assert os.environ['DANUBE_BROKER_URL'] == 'http://here'\n"
    )
    servers = Servers("one", "http://here", "http://there")
    found = suites.run_python(tmp_path, servers, tmp_path)
    assert found == [Case("danube-py/test_url::test_url", PASSED)]
    (folder / "test_url.py").unlink()
    with pytest.raises(suites.CannotRun, match="it ran no test"):
        suites.run_python(tmp_path, servers, tmp_path)
