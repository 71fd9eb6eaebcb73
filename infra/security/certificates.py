"""Internal certificates: brokers, storage nodes and etcd trust their own authority.

This program creates the authority and all keys, and Pulumi's state holds them encrypted. Each
server has one secret with its certificate and key, which ECS passes to its containers. An AWS
private authority would do the same for 400 dollars per month.

Certificates are valid for more than two years; `pulumi up` renews them during the last one. Task
definitions name the version of the secret, so renewal restarts the containers, one member at a
time. docs/operations.md describes how to replace an authority.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws
import pulumi_tls as tls

from infra.component import Component, Deployment
from infra.security.iam import Statement
from infra.security.keys import Keys

FILES: Final = ("authorities", "certificate", "key")
"""The PEM values in a server's secret: trusted authorities, its certificate, its private key."""
_AUTHORITY_HOURS: Final = 20 * 365 * 24
_CERTIFICATE_HOURS: Final = 820 * 24
_RENEWAL_HOURS: Final = 365 * 24


@dataclass(frozen=True, slots=True)
class Credential:
    """The secret with one server's certificate, key and trusted authorities."""

    secret: aws.secretsmanager.Secret
    version: aws.secretsmanager.SecretVersion

    def value_of(self, file: str) -> pulumi.Output[str]:
        """The ``valueFrom`` with which ECS reads one of ``FILES`` from this secret version."""
        return pulumi.Output.concat(self.secret.arn, ":", file, "::", self.version.version_id)


class Certificates(Component):
    """The internal authorities and the certificates that they have signed."""

    def __init__(self, keys: Keys, parent: Deployment) -> None:
        super().__init__("Certificates", parent)
        self._keys = keys
        self._authorities = [self._authority(name) for name in self.settings.internal_authorities]
        self.trusted = pulumi.Output.concat(*(made.cert_pem for _, made in self._authorities))
        self.register_outputs({"authorities": self.trusted})

    def issue(
        self, name: str, hosts: Sequence[pulumi.Input[str]], addresses: Sequence[str] = ()
    ) -> Credential:
        """Issue a certificate for server and client use, in its own secret."""
        key = self._key(name)
        request = tls.CertRequest(
            name,
            private_key_pem=_secret(key.private_key_pem),
            subject={"common_name": f"{self.settings.prefix}-{name}"},
            dns_names=list(hosts),
            ip_addresses=list(addresses),
            opts=self.within(),
        )
        signing, authority = self._authorities[0]
        signed = tls.LocallySignedCert(
            name,
            cert_request_pem=request.cert_request_pem,
            ca_private_key_pem=_secret(signing.private_key_pem),
            ca_cert_pem=authority.cert_pem,
            validity_period_hours=_CERTIFICATE_HOURS,
            early_renewal_hours=_RENEWAL_HOURS,
            allowed_uses=["digital_signature", "server_auth", "client_auth"],
            opts=self.within(),
        )
        return self._credential(
            name,
            {
                "authorities": self.trusted,
                "certificate": signed.cert_pem,
                "key": key.private_key_pem,
            },
        )

    def may_read(self, credentials: Sequence[Credential]) -> list[Statement]:
        """The permissions that ECS needs to pass credentials to containers."""
        return self._keys.may_read([each.secret.arn for each in credentials])

    def _key(self, name: str) -> tls.PrivateKey:
        return tls.PrivateKey(name, algorithm="ECDSA", ecdsa_curve="P256", opts=self.within())

    def _authority(self, name: str) -> tuple[tls.PrivateKey, tls.SelfSignedCert]:
        key = self._key(f"authority-{name}")
        made = tls.SelfSignedCert(
            f"authority-{name}",
            private_key_pem=_secret(key.private_key_pem),
            subject={"common_name": f"{self.settings.prefix} internal {name}"},
            is_ca_certificate=True,
            validity_period_hours=_AUTHORITY_HOURS,
            allowed_uses=["cert_signing", "crl_signing"],
            set_subject_key_id=True,
            opts=self.within(protect=self.settings.protect),
        )
        return key, made

    def _credential(self, name: str, files: Mapping[str, pulumi.Input[str]]) -> Credential:
        secret = aws.secretsmanager.Secret(
            f"internal-{name}",
            name=f"{self.settings.prefix}/internal/{name}",
            description=f"Internal certificate, key and trusted authorities of {name}",
            kms_key_id=self._keys.operations.arn,
            recovery_window_in_days=self._keys.recovery_days,
            opts=self.within(),
        )
        version = aws.secretsmanager.SecretVersion(
            f"internal-{name}",
            secret_id=secret.id,
            secret_string=_secret(pulumi.Output.json_dumps(files)),
            opts=self.within(),
        )
        return Credential(secret, version)


def _secret(value: pulumi.Output[str]) -> pulumi.Output[str]:
    """Mark a value as secret, so that Pulumi encrypts it in its state."""
    found: pulumi.Output[str] = pulumi.Output.secret(value)
    return found
