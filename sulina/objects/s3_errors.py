"""What went wrong with S3, told in our own errors: worth another attempt, or a sentence."""

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
        "ConditionalRequestConflict",  # two made the object at once, and it is not yet known who
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
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, choose a profile with AWS_PROFILE, or give "
    "the machine or container a role"
)


def translate(error: Exception, bucket: str, key: str) -> Exception:
    """What to raise instead of ``error``, which a request for ``key`` ended with."""
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
        return Refused(f"there are no whole credentials for the bucket {bucket}: {_CREDENTIALS}")
    if isinstance(error, boto.BotoCoreError | ValueError):
        return Refused(f"the bucket {bucket} can't be asked: {error}")
    return error


def _answered(error: boto.ClientError, bucket: str, key: str) -> Exception:
    """For an answer that says no."""
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
            f"there is no bucket {bucket}: make it, or name another one, or another endpoint, in "
            "the URL"
        )
    if code in _ELSEWHERE or status in (301, 307):
        return Refused(
            f"the bucket {bucket} is in another region: add ?region=... to the URL, or set "
            f"AWS_REGION ({text})"
        )
    if code == "RequestTimeTooSkewed":
        return Refused(f"the clock of this machine is wrong, so S3 trusts nothing it signs: {text}")
    if code in _STRANGER:
        return Refused(
            f"the bucket {bucket} does not know these credentials ({code}): {_CREDENTIALS}"
        )
    if code == "AccessDenied" or status == 403:
        return Refused(
            f"these credentials may not do this with {key} in the bucket {bucket}: allow "
            "s3:GetObject, s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload, s3:ListBucket "
            "and s3:ListBucketMultipartUploads"
        )
    if status == 404:
        return NotFound(f"there is no object {key} in the bucket {bucket}")
    return Refused(f"the bucket {bucket} refused a request for {key}: {code} {text}")
