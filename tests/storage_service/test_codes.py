"""Errors keep their meaning between a node and its client."""

from __future__ import annotations

import grpc
import pytest

from storage_grpc import storage_pb2 as pb
from storage_grpc.node import MaybeLost
from storage_grpc.remote.wire.codes import (
    CODE_KEY,
    code_of,
    error_of,
    error_of_call,
    status_of,
)
from sulina import errors
from sulina.errors import SulinaError, Unavailable, UnknownOutcome

SAME = [
    errors.UnknownOutcome,
    errors.Fenced,
    errors.NotFound,
    errors.CorruptEntry,
    errors.Refused,
    errors.TooLarge,
    errors.StorageFull,
    errors.StorageFailed,
    errors.Overloaded,
    errors.Unavailable,
    MaybeLost,
]


def failed_call(status: grpc.StatusCode, *trailer: tuple[str, str]) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(
        status, grpc.aio.Metadata(), grpc.aio.Metadata(*trailer), details="the cause"
    )


@pytest.mark.parametrize("kind", SAME)
def test_an_error_arrives_as_what_it_was(kind: type[SulinaError]) -> None:
    code = code_of(kind("the cause"))
    for arrived in (
        error_of(code, "the cause", "storage-1"),
        error_of_call(failed_call(status_of(code), (CODE_KEY, str(code))), "storage-1"),
    ):
        assert type(arrived) is kind
        assert str(arrived) == "storage-1: the cause"


def test_every_code_is_used_and_has_a_status() -> None:
    used = {code_of(kind("")) for kind in SAME} | {code_of(None)}
    assert used == set(pb.Code.values())
    for code in used - {pb.OK}:
        assert status_of(code) not in (grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED)


def test_kinds_of_refusal_arrive_as_refusals() -> None:
    assert code_of(errors.CorruptFrame("")) == code_of(errors.AlreadyExists("")) == pb.REFUSED


def test_a_node_that_was_closed_is_unavailable_to_its_client() -> None:
    assert isinstance(error_of(code_of(errors.Closed("")), "", "x"), Unavailable)


@pytest.mark.parametrize("error", [ValueError("a bug"), SulinaError("vague")])
def test_what_was_not_meant_to_happen_has_an_unknown_outcome(error: Exception) -> None:
    assert code_of(error) == pb.UNKNOWN_OUTCOME
    assert status_of(pb.UNKNOWN_OUTCOME) == grpc.StatusCode.UNKNOWN


def test_a_code_of_the_future_is_an_unknown_outcome() -> None:
    assert type(error_of(999, "", "x")) is UnknownOutcome


@pytest.mark.parametrize("status", list(grpc.StatusCode))
def test_a_status_without_a_code_is_an_unknown_outcome(status: grpc.StatusCode) -> None:
    assert type(error_of_call(failed_call(status), "x")) is UnknownOutcome
    assert type(error_of_call(failed_call(status, (CODE_KEY, "?")), "x")) is UnknownOutcome
