"""The keys of a JSON Web Key Set, and signatures made with them.

A key decides which algorithm it is for, not the token: a public key is never used as a secret.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from broker_containers.security.errors import Unauthenticated
from broker_containers.security.jwt import base64_decoded

ALGORITHMS: Final = ("RS256", "ES256", "EdDSA")
_LEAST_RSA_BITS: Final = 2048
_MOST_RSA_BITS: Final = 8192
_MOST_KEYS: Final = 100
_HALF: Final = 32


@dataclass(frozen=True, slots=True)
class VerifyKey:
    """A public key for one algorithm."""

    algorithm: str
    key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey

    def verifies(self, algorithm: str, signed: bytes, signature: bytes) -> bool:
        """Whether the signature is one of this key, by this algorithm."""
        if algorithm != self.algorithm:
            return False
        try:
            match self.key:
                case rsa.RSAPublicKey():
                    self.key.verify(signature, signed, padding.PKCS1v15(), SHA256())
                case ec.EllipticCurvePublicKey():
                    if len(signature) != 2 * _HALF:
                        return False
                    parts = signature[:_HALF], signature[_HALF:]
                    r, s = (int.from_bytes(each, "big") for each in parts)
                    self.key.verify(encode_dss_signature(r, s), signed, ec.ECDSA(SHA256()))
                case ed25519.Ed25519PublicKey():
                    self.key.verify(signature, signed)
        except InvalidSignature:
            return False
        return True


def read_keys(found: dict[str, Any]) -> dict[str, VerifyKey]:
    """The usable keys of a set, by their ids. Others are left out: a set may have more."""
    listed = found.get("keys")
    keys: dict[str, VerifyKey] = {}
    for each in listed[:_MOST_KEYS] if isinstance(listed, list) else []:
        if not isinstance(each, dict) or each.get("use", "sig") != "sig":
            continue
        try:
            key = _key(each)
        except (KeyError, TypeError, ValueError, Unauthenticated):
            continue
        if key is not None and each.get("alg", key.algorithm) == key.algorithm:
            keys[str(each.get("kid", ""))] = key
    return keys


def _rsa(found: dict[str, Any]) -> VerifyKey | None:
    n, e = (int.from_bytes(base64_decoded(found[name]), "big") for name in ("n", "e"))
    if not _LEAST_RSA_BITS <= n.bit_length() <= _MOST_RSA_BITS:
        return None
    return VerifyKey("RS256", rsa.RSAPublicNumbers(e, n).public_key())


def _elliptic(found: dict[str, Any]) -> VerifyKey | None:
    if found.get("crv") != "P-256":
        return None
    x, y = (int.from_bytes(base64_decoded(found[name]), "big") for name in ("x", "y"))
    return VerifyKey("ES256", ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key())


def _edwards(found: dict[str, Any]) -> VerifyKey | None:
    if found.get("crv") != "Ed25519":
        return None
    key = ed25519.Ed25519PublicKey.from_public_bytes(base64_decoded(found["x"]))
    return VerifyKey("EdDSA", key)


_READERS: Final[dict[str, Callable[[dict[str, Any]], VerifyKey | None]]] = {
    "RSA": _rsa,
    "EC": _elliptic,
    "OKP": _edwards,
}


def _key(found: dict[str, Any]) -> VerifyKey | None:
    read = _READERS.get(found["kty"])
    return None if read is None else read(found)
