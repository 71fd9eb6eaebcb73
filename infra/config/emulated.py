"""A stack on an emulated AWS never reaches the real one, not even by mistake.

``aws:endpoints`` names the emulator for one service at a time. A service that is missing there
would be called at AWS, over HTTPS: ``aws:httpsProxy`` leads such calls to the emulator, which does
not forward them, so they fail. ``aws:httpProxy`` leads calls of S3 Control to the emulator, because
the provider puts the account number in front of its host name, and that name has no address.
``aws:noProxy`` replaces exceptions in the environment. The provider checks credentials without any
of these, hence the other settings.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from urllib.parse import urlsplit

from infra.errors import DeploymentError

_NEEDED = {
    "aws:httpProxy": "",
    "aws:httpsProxy": "",
    "aws:noProxy": "127.0.0.1",
    "aws:skipCredentialsValidation": "true",
    "aws:skipMetadataApiCheck": "true",
}
"""The required values; an empty one stands for the emulator's URL."""


def check_emulated(given: Mapping[str, str]) -> None:
    """Raises ``DeploymentError`` if a stack with a local endpoint could reach the real AWS.

    ``given`` is the whole configuration, in which every value is text.
    """
    endpoints = _endpoints(given)
    local = next((url for url in endpoints if _is_local(url)), None)
    if local is None:
        return
    for name, value in _NEEDED.items():
        found = given.get(name, "")
        if not (found == value if value else _is_local(found)):
            raise DeploymentError(
                f"aws:endpoints names {local}, an emulated AWS, but without {name} this stack "
                f"could reach the real one: set it with `pulumi config set {name} {value or local}`"
            )
    outside = next((url for url in endpoints if not _is_local(url)), None)
    if outside is not None:
        raise DeploymentError(
            f"aws:endpoints names {local}, an emulated AWS, and also {outside}, which is not on "
            "this machine: choose one of them"
        )


def is_emulated(given: Mapping[str, str]) -> bool:
    """Whether a stack's configuration names an emulated AWS."""
    return any(_is_local(url) for url in _endpoints(given))


def _endpoints(given: Mapping[str, str]) -> list[str]:
    services = json.loads(given.get("aws:endpoints") or "[]")
    # That of S3 first: a proxy has to be there.
    return [url for each in services for _, url in sorted(each.items(), key=_other_than_s3)]


def _other_than_s3(endpoint: tuple[str, str]) -> bool:
    return endpoint[0] != "s3"


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
