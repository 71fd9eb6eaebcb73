"""What says who a caller is, and what says who did what: tokens, keys, certificates, the trail."""

from __future__ import annotations

import base64
import json
import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from broker_containers.security.certificate import read_certificate
from broker_containers.security.errors import Unauthenticated
from broker_containers.security.jwk import VerifyKey, read_keys
from broker_containers.security.jwt import is_hs256, looks_like_jwt, read_jwt
from broker_containers.security.oidc import read_oidc_token
from broker_containers.security.settings import JwtSettings, OidcSettings
from sulina.audit import (
    AuditEntry,
    AuditEvent,
    AuditOutcome,
    AuditRecord,
    ChainHead,
    ChainVerifier,
    TrailStart,
    decode,
    encode,
    hash_of,
)
from sulina.errors import Refused
from sulina.runtime.machine_watch import expiry_of
from tests.fuzz.target import Stateless, Target
from tests.wire.records import NOW

# ---- tokens of a provider, and JSON Web Tokens ----

_KEY: Final = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
_PUBLIC: Final = _KEY.public_key()
_OIDC: Final = OidcSettings("https://issuer", "sulina")
_JWT: Final = JwtSettings(b"a signing key of thirty-two bytes", issuer="https://issuer")
_NOW_S: Final = NOW // 1_000_000
_HEADER: Final = {"alg": "EdDSA", "kid": "a"}
_CLAIMS: Final[dict[str, Any]] = {
    "iss": "https://issuer",
    "aud": ["sulina", "x"],
    "sub": "mara",
    "exp": _NOW_S + 600,
    "iat": _NOW_S - 60,
    "nbf": _NOW_S - 60,
    "groups": ["g"],
}


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def fuzz_oidc(data: bytes) -> None:
    """The header and the claims are separated by the first zero byte. As they are, the token is
    refused; with a signature of the provider only its claims decide."""
    keys = {"a": VerifyKey("EdDSA", _PUBLIC)}
    header, _, claims = data.partition(b"\0")
    signed = f"{_text(header)}.{_text(claims)}"
    given = data.decode("latin-1")
    for token in (given, f"{signed}.{_text(claims[:64])}"):
        with suppress(Unauthenticated):
            found = read_oidc_token(token, keys, _OIDC, NOW)
            raise AssertionError(f"a token that nobody signed is that of {found.principal}")
        with suppress(Unauthenticated):
            assert not looks_like_jwt(token) or is_hs256(token) in (True, False)
        with suppress(Unauthenticated):
            found = read_jwt(token, _JWT, NOW)
            raise AssertionError(f"a token that nobody signed is that of {found.principal}")
    with suppress(Unauthenticated):
        valid = f"{signed}.{_text(_KEY.sign(signed.encode()))}"
        found = read_oidc_token(valid, keys, _OIDC, NOW)
        assert found.principal and found.expires_us > NOW
        assert all(type(each) is str for each in found.groups)


def _oidc_seeds() -> list[bytes]:
    def joined(header: Any, claims: Any) -> bytes:
        return json.dumps(header).encode() + b"\0" + json.dumps(claims).encode()

    changed: list[dict[str, Any]] = [
        {"aud": "sulina"},
        {"aud": None},
        {"exp": 1e300},
        {"exp": -1},
        {"exp": "1"},
        {"nbf": _NOW_S + 3600},
        {"sub": 7},
        {"groups": "one"},
        {"groups": [1, {}, "x"]},
    ]
    headers = [
        _HEADER,
        {"alg": "EdDSA"},
        {"alg": "none"},
        {**_HEADER, "crit": []},
        {"alg": "HS256"},
    ]
    return [
        *(joined(header, _CLAIMS) for header in headers),
        *(joined(_HEADER, {**_CLAIMS, **change}) for change in changed),
    ]


def fuzz_keys(data: bytes) -> None:
    """A provider's key set: whatever is in it, some of its keys are usable or none are."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(found, dict):
        for key in read_keys(found).values():
            assert not key.verifies(key.algorithm, b"signed", bytes(64))


def _key_seeds() -> list[bytes]:
    numbers = _text(bytes(range(1, 33)))
    raw = _PUBLIC.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    kinds: list[dict[str, Any]] = [
        {"kty": "OKP", "crv": "Ed25519", "x": _text(raw), "kid": "a", "use": "sig"},
        {"kty": "EC", "crv": "P-256", "x": numbers, "y": numbers, "alg": "ES256"},
        {"kty": "RSA", "n": _text(b"\xc3" * 256), "e": "AQAB"},
        {"kty": "oct", "k": numbers},
    ]
    return [json.dumps({"keys": [each]}).encode() for each in kinds] + [
        json.dumps({"keys": kinds}).encode()
    ]


# ---- certificates ----


def fuzz_certificate(data: bytes) -> None:
    """A certificate in DER: our own reader of its end, and what ``ssl`` says of those that it
    can read."""
    pem = ssl.DER_cert_to_PEM_cert(data)
    with suppress(Refused, OverflowError):
        expiry_of(pem.encode())
    with suppress(Refused):
        expiry_of(data)
    file = os.memfd_create("certificate")
    try:
        os.write(file, pem.encode())
        with suppress(ssl.SSLError, ValueError, OSError):
            described = _described(f"/proc/self/fd/{file}")
            found = read_certificate(described)
            assert found is None or found.principal
    finally:
        os.close(file)


_described: Final[Callable[[str], dict[str, Any]]] = ssl._ssl._test_decode_cert  # type: ignore[attr-defined]


def _certificate_seeds() -> list[bytes]:
    authority = trustme.CA()
    names = [("localhost",), ("127.0.0.1", "*.example.org")]
    made = [authority.issue_cert(*each) for each in names]
    made.append(authority.issue_cert(common_name="billing"))
    chains = [each.cert_chain_pems[0].bytes() for each in made]
    return [
        ssl.PEM_cert_to_DER_cert(each.decode()) for each in (*chains, authority.cert_pem.bytes())
    ]


# ---- the audit trail ----


def fuzz_audit(data: bytes) -> None:
    """Each line is a record, or what somebody made of one."""
    verifier = ChainVerifier([_WRITTEN[-1].head], starts=[_START], first=len(data) % 3)
    lines = data.split(b"\n")[:64]
    for offset, line in enumerate(lines):
        record = None
        with suppress(ValueError):
            record = decode(line)
            assert encode(record) == line
            if record.hash == hash_of(record):
                assert encode(decode(encode(record))) == line
        verifier.add(offset, record)
    verifier.finish()
    different = list(dict.fromkeys(lines))  # repetitions are fine
    whole = different == [encode(each) for each in _WRITTEN]
    assert verifier.problems or whole or len(data) % 3, "something is wrong and was not found"


def _written() -> list[AuditRecord]:
    entry = AuditEntry(
        time_us=NOW,
        event=AuditEvent.ACT,
        outcome=AuditOutcome.STARTED,
        principal="billing",
        address="127.0.0.1:7",
        door="binary",
        operation="topic.create",
    )
    trim = replace(entry, operation="audit.trim", detail='{"before": 1, "ends": "x"}')
    head, found = ChainHead("broker-1"), []
    for each in (entry, replace(entry, event=AuditEvent.OUTCOME, act=1, count=3), trim):
        found.append(head.next(each))
        head = found[-1].head
    return found


_WRITTEN: Final = _written()
_START: Final = TrailStart(1, (_WRITTEN[0].head,))


def _audit_seeds() -> list[bytes]:
    lines = [encode(each) for each in _WRITTEN]
    return [b"\n".join(lines), b"\n".join(lines[1:]), *lines]


TARGETS = [
    Target(
        name="oidc",
        summary="tokens of an OpenID Connect provider, and JSON Web Tokens",
        seeds=_oidc_seeds,
        open=lambda: Stateless(fuzz_oidc),
    ),
    Target(
        name="jwks",
        summary="the key set of an OpenID Connect provider",
        seeds=_key_seeds,
        open=lambda: Stateless(fuzz_keys),
    ),
    Target(
        name="certificate",
        summary="certificates in files, and those that clients show",
        seeds=_certificate_seeds,
        open=lambda: Stateless(fuzz_certificate),
    ),
    Target(
        name="audit",
        summary="records of the audit trail, and its verification",
        seeds=_audit_seeds,
        open=lambda: Stateless(fuzz_audit),
    ),
]
