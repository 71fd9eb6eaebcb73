"""Translates errors of S3: temporary failures, and final errors with a remedy."""

from __future__ import annotations

import asyncio
from typing import Final

import aiohttp
from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from sulina.errors import NotFound, Refused
from sulina.objects.outcomes import RangeError, TakenError, TemporaryFailure, UploadGoneError

_BUSY: Final = frozenset(
    {
        "ConditionalRequestConflict",  # concurrent writers, the winner is not decided yet
        "InternalError",
        "OperationAborted",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
    }
)
_STRANGER: Final = frozenset(
    {"AuthFailure", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch"}
)
_ELSEWHERE: Final = frozenset(
    {"AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect"}
)
_TOO_MANY: Final = 429
_SERVER: Final = 500
_CREDENTIALS: Final = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, select a profile with AWS_PROFILE, or assign "
    "a role to the machine or container"
)


def translate(error: Exception, bucket: str, key: str) -> Exception:
    """The error to raise for ``error``, with which a request for ``key`` failed."""
    if isinstance(error, boto.ClientError):
        return _answered(error, bucket, key)
    if isinstance(
        error,
        boto.ConnectionError
        | boto.HTTPClientError
        | boto.IncompleteReadError
        | boto.CredentialRetrievalError
        | boto.MetadataRetrievalError
        | ResponseParserError
        | aiohttp.ClientError
        | asyncio.IncompleteReadError
        | OSError,
    ):
        return TemporaryFailure(f"the connection failed ({str(error) or type(error).__name__})")
    if isinstance(error, boto.NoCredentialsError | boto.PartialCredentialsError):
        return Refused(
            f"the credentials for the bucket {bucket} are missing or incomplete: {_CREDENTIALS}"
        )
    if isinstance(error, boto.BotoCoreError | ValueError):
        return Refused(f"the request to the bucket {bucket} is invalid: {error}")
    return error


def _answered(error: boto.ClientError, bucket: str, key: str) -> Exception:
    """The error for an error response."""
    found = error.response.get("Error", {})
    code, text = str(found.get("Code", "")), str(found.get("Message", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code in _BUSY or status >= _SERVER or status == _TOO_MANY:
        return TemporaryFailure(f"the store answered {status} {code} {text}".rstrip())
    if code == "PreconditionFailed" or status == 412:
        return TakenError()
    if code == "NoSuchUpload":
        return UploadGoneError()
    if code == "InvalidRange" or status == 416:
        return RangeError()
    if code == "NoSuchBucket":
        return Refused(
            f"the bucket {bucket} does not exist: create it, or use another bucket or endpoint in "
            "the URL"
        )
    if code in _ELSEWHERE or status in (301, 307):
        return Refused(
            f"the bucket {bucket} is in another region: add ?region=... to the URL, or set "
            f"AWS_REGION ({text})"
        )
    if code == "RequestTimeTooSkewed":
        return Refused(
            f"this machine's clock is wrong, so S3 rejects its signatures: set it ({text})"
        )
    if code in _STRANGER:
        return Refused(f"the bucket {bucket} rejects these credentials ({code}): {_CREDENTIALS}")
    if code == "AccessDenied" or status == 403:
        return Refused(
            f"these credentials lack permissions for {key} in the bucket {bucket}: allow "
            "s3:GetObject, s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload, s3:ListBucket "
            "and s3:ListBucketMultipartUploads"
        )
    if status == 404:
        return NotFound(f"the object {key} does not exist in the bucket {bucket}")
    return Refused(f"the bucket {bucket} refused a request for {key}: {code} {text}")
