"""Creates the resources of Pulumi's TLS provider: real keys and certificates."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Inputs = Mapping[str, Any]
_SUBJECT_KEY = x509.SubjectKeyIdentifier
_USES = {
    "server_auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client_auth": ExtendedKeyUsageOID.CLIENT_AUTH,
}


def _key(given: Inputs) -> dict[str, Any]:
    assert (given["algorithm"], given["ecdsaCurve"]) == ("ECDSA", "P256")
    made = ec.generate_private_key(ec.SECP256R1())
    text = made.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    return {"privateKeyPem": text.decode()}


def _name(given: Inputs) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, given["subject"]["commonName"])])


def _load(text: str) -> ec.EllipticCurvePrivateKey:
    found = load_pem_private_key(text.encode(), None)
    assert isinstance(found, ec.EllipticCurvePrivateKey)
    return found


def _request(given: Inputs) -> dict[str, Any]:
    names: list[x509.GeneralName] = [x509.DNSName(each) for each in given.get("dnsNames", ())]
    addresses = map(ipaddress.ip_address, given.get("ipAddresses", ()))
    names.extend(map(x509.IPAddress, addresses))
    builder = x509.CertificateSigningRequestBuilder().subject_name(_name(given))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    made = builder.sign(_load(given["privateKeyPem"]), SHA256())
    return {"certRequestPem": made.public_bytes(Encoding.PEM).decode()}


def _usage(signs: bool) -> x509.KeyUsage:
    """For an authority that signs certificates, or for a server or client."""
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(
    given: Inputs, subject: x509.Name, issuer: x509.Name, public: Any
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(hours=int(given["validityPeriodHours"])))
    )


def _authority(given: Inputs) -> dict[str, Any]:
    key, name = _load(given["privateKeyPem"]), _name(given)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = _builder(given, name, name, key.public_key())
    if given.get("setSubjectKeyId"):
        builder = builder.add_extension(identifier, critical=False)
    made = (
        builder.add_extension(x509.BasicConstraints(given["isCaCertificate"], None), critical=True)
        .add_extension(_usage("cert_signing" in given["allowedUses"]), critical=True)
        .sign(key, SHA256())
    )
    return {"certPem": made.public_bytes(Encoding.PEM).decode()}


def _signed(given: Inputs) -> dict[str, Any]:
    request = x509.load_pem_x509_csr(given["certRequestPem"].encode())
    authority = x509.load_pem_x509_certificate(given["caCertPem"].encode())
    uses = [_USES[each] for each in given["allowedUses"] if each in _USES]
    builder = _builder(given, request.subject, authority.subject, request.public_key())
    builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    identified = [e.value for e in authority.extensions if isinstance(e.value, _SUBJECT_KEY)]
    for each in identified:
        # Like Go's library, which the provider uses.
        found = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(each)
        builder = builder.add_extension(found, critical=False)
    for extension in request.extensions:
        builder = builder.add_extension(extension.value, critical=False)
    made = builder.sign(_load(given["caPrivateKeyPem"]), SHA256())
    return {"certPem": made.public_bytes(Encoding.PEM).decode()}


MAKERS: dict[str, Callable[[Inputs], dict[str, Any]]] = {
    "tls:index/privateKey:PrivateKey": _key,
    "tls:index/certRequest:CertRequest": _request,
    "tls:index/selfSignedCert:SelfSignedCert": _authority,
    "tls:index/locallySignedCert:LocallySignedCert": _signed,
}
"""By Pulumi type: a function from the plain inputs to the properties that the provider adds."""
