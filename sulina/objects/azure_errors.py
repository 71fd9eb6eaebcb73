"""Translates errors of Azure Blob Storage: temporary failures, and final errors with a remedy."""

from __future__ import annotations

import asyncio
from typing import Final

import aiohttp
from azure.core import exceptions as azure

from sulina.errors import NotFound, Refused
from sulina.objects.outcomes import RangeError, TakenError, TemporaryFailure, UploadGoneError

_BUSY: Final = frozenset({"InternalError", "OperationTimedOut", "ServerBusy"})
_TAKEN: Final = frozenset({"BlobAlreadyExists", "ConditionNotMet", "UnauthorizedBlobOverwrite"})
_GONE: Final = frozenset({"InvalidBlockList", "InvalidBlockId"})
"""Another upload of the name was committed, which discards the blocks of all others."""
_CREDENTIALS: Final = (
    "set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or give the machine, the workload or the "
    "person (az login) the role Storage Blob Data Contributor"
)


def translate(error: Exception, container: str, key: str) -> Exception:
    """The error to raise for ``error``, with which a request for ``key`` failed."""
    if isinstance(error, azure.ClientAuthenticationError) and error.status_code is None:
        return Refused(f"no credentials for the container {container} were found: {_CREDENTIALS}")
    if isinstance(error, azure.HttpResponseError) and error.status_code is not None:
        return _answered(error, int(error.status_code), container, key)
    if isinstance(
        error,
        azure.AzureError | aiohttp.ClientError | asyncio.IncompleteReadError | OSError,
    ):
        return TemporaryFailure(f"the connection failed ({str(error) or type(error).__name__})")
    if isinstance(error, ValueError):
        return Refused(f"the request to the container {container} is invalid: {error}")
    return error


def _answered(error: azure.HttpResponseError, status: int, container: str, key: str) -> Exception:
    """The error for an error response."""
    known = getattr(error, "error_code", None) or ""
    code = str(getattr(known, "value", known))  # an enumeration, or the text of an unknown one
    if code in _BUSY or status >= 500 or status in (408, 429):
        return TemporaryFailure(f"the store answered {status} {code}".rstrip())
    if code in _TAKEN or status in (409, 412):
        return TakenError()
    if code in _GONE:
        return UploadGoneError()
    if code == "InvalidRange" or status == 416:
        return RangeError()
    if code == "ContainerNotFound":
        return Refused(
            f"the container {container} does not exist: create it, or use another one in the URL"
        )
    if status == 401 or code == "AuthenticationFailed":
        return Refused(f"the container {container} rejects these credentials: {_CREDENTIALS}")
    if status == 403:
        return Refused(
            f"these credentials are wrong, or lack permissions for {key!r} in the container "
            f"{container}: {_CREDENTIALS}"
        )
    if status == 404:
        return NotFound(f"the object {key} does not exist in the container {container}")
    return Refused(f"the container {container} refused a request for {key!r}: {status} {code}")
