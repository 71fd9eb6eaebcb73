"""Access tokens for Google Cloud, from the application default credentials."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import google.auth
import google.auth.exceptions
import google.auth.transport.requests

from sulina.errors import Refused
from sulina.objects.outcomes import TemporaryFailure

_SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_write"


class GoogleTokens:
    """Tokens of the default credentials, each used until shortly before it expires."""

    def __init__(self) -> None:
        self._credentials: Any = None
        self._turn = asyncio.Lock()

    async def headers(self) -> dict[str, str]:
        """Request headers. Raises ``Refused`` for bad credentials, and ``TemporaryFailure``."""
        async with self._turn:
            if self._credentials is None or not self._credentials.valid:
                await asyncio.to_thread(self._refresh)
            return {"Authorization": f"Bearer {self._credentials.token}"}

    def _refresh(self) -> None:
        try:
            if self._credentials is None:
                self._credentials, _ = google.auth.default(scopes=[_SCOPE])
            self._credentials.refresh(google.auth.transport.requests.Request())
        except google.auth.exceptions.DefaultCredentialsError as error:
            raise Refused(
                "no credentials for Google Cloud found: set GOOGLE_APPLICATION_CREDENTIALS to the "
                "file of a service account, run `gcloud auth application-default login`, or assign "
                "a service account to the machine"
            ) from error
        except google.auth.exceptions.RefreshError as error:
            raise Refused(f"Google Cloud rejected the credentials: {error}") from error
        except google.auth.exceptions.GoogleAuthError as error:
            raise TemporaryFailure(f"cannot get an access token ({error})") from error


class NoTokens:
    """For emulators, which do not check credentials."""

    async def headers(self) -> dict[str, str]:
        return {}
