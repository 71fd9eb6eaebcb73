"""What ``import sulina`` promises."""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path

import sulina

ROOT = Path(sulina.__file__).parent


def test_the_public_names_are_these_and_no_others() -> None:
    assert set(sulina.__all__) == {
        *("AlreadyExists", "Backoff", "Batch", "Client", "Closed", "Consumer", "CorruptFrame"),
        *("Delivery", "FailurePolicy", "Fenced", "Message", "MessageId", "NotFound"),
        *("Overloaded", "Poison", "Producer", "ProtocolError", "ReadResult", "Refused"),
        *("Retriable", "Start", "StorageFull", "SubscriptionType", "SulinaError", "Ticket"),
        *("TooLarge", "TopicInfo", "TypedConsumer", "TypedMessage", "TypedProducer"),
        *("Unavailable", "UnknownOutcome", "__version__", "connect"),
    }
    assert all(hasattr(sulina, name) for name in sulina.__all__)


def test_everything_public_says_what_it_is_for() -> None:
    for name in sulina.__all__:
        thing = getattr(sulina, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), f"{name} has no docstring"


def test_every_public_method_is_documented_and_typed() -> None:
    for kind in (sulina.Client, sulina.Producer, sulina.Consumer, sulina.Ticket, sulina.Message):
        for name, member in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_"):
                assert inspect.getdoc(member), f"{kind.__name__}.{name} has no docstring"
                assert "return" in member.__annotations__, f"{kind.__name__}.{name} is not typed"


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "py.typed").exists()


def test_the_package_takes_its_version_from_the_code() -> None:
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {
        "attr": "sulina.version.__version__"
    }


def test_every_error_is_of_the_family() -> None:
    for name in sulina.__all__:
        thing = getattr(sulina, name)
        if inspect.isclass(thing) and issubclass(thing, Exception):
            assert issubclass(thing, sulina.SulinaError)
