"""Certificates for the inside: brokers, storage nodes and etcd trust an authority of their own.

The authority and all keys are made by this program and kept in its state, encrypted; what a part
needs of them is one secret for it alone, which ECS hands to its containers. An authority of AWS
would do the same for 400 dollars a month.

Certificates are good for more than two years, and every `pulumi up` in the last of them makes new
ones. A secret's version is written into the task definitions, so that a new one starts containers
anew, one member after the other. How an authority is replaced is in docs/operations.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws
import pulumi_tls as tls

from infra.config import Settings
from infra.keys import Keys
from infra.policies import Statement, allow
from infra.tier import Place, Tier

FILES: Final = ("authorities", "certificate", "key")
"""What is in the secret of a part, PEM each: whom to trust, what to show, and its key."""
_AUTHORITY_HOURS: Final = 20 * 365 * 24
_HOURS: Final = 820 * 24
_RENEWED_HOURS: Final = 365 * 24


@dataclass(frozen=True, slots=True)
class Credential:
    """What one part shows and trusts, in a secret."""

    secret: aws.secretsmanager.Secret
    version: aws.secretsmanager.SecretVersion

    def value_of(self, file: str) -> pulumi.Output[str]:
        """Where ECS finds one of ``FILES``: in this very version of the secret."""
        return pulumi.Output.concat(self.secret.arn, ":", file, "::", self.version.version_id)


class Certificates(Tier):
    """The authorities, and what they signed."""

    def __init__(
        self, settings: Settings, place: Place, keys: Keys, parent: pulumi.Resource
    ) -> None:
        super().__init__("Certificates", settings, place, parent)
        self._keys = keys
        self._authorities = [self._authority(name) for name in settings.inside_authorities]
        self.trusted = pulumi.Output.concat(*(made.cert_pem for _, made in self._authorities))
        self.register_outputs({"authorities": self.trusted})

    def issue(self, name: str, hosts: Sequence[str], addresses: Sequence[str] = ()) -> Credential:
        """A certificate for a part, for servers and clients, in a secret of its own.

        Whoever only calls others has neither hosts nor addresses.
        """
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
            validity_period_hours=_HOURS,
            early_renewal_hours=_RENEWED_HOURS,
            allowed_uses=["digital_signature", "server_auth", "client_auth"],
            opts=self.within(),
        )
        return self._kept(
            name,
            {
                "authorities": self.trusted,
                "certificate": signed.cert_pem,
                "key": key.private_key_pem,
            },
        )

    def may_read(self, credentials: Sequence[Credential]) -> list[Statement]:
        """What ECS needs to hand these to containers."""
        return may_read(self, self._keys, [each.secret.arn for each in credentials])

    def _key(self, name: str) -> tls.PrivateKey:
        return tls.PrivateKey(name, algorithm="ECDSA", ecdsa_curve="P256", opts=self.within())

    def _authority(self, name: str) -> tuple[tls.PrivateKey, tls.SelfSignedCert]:
        key = self._key(f"authority-{name}")
        made = tls.SelfSignedCert(
            f"authority-{name}",
            private_key_pem=_secret(key.private_key_pem),
            subject={"common_name": f"{self.settings.prefix} inside {name}"},
            is_ca_certificate=True,
            validity_period_hours=_AUTHORITY_HOURS,
            allowed_uses=["cert_signing", "crl_signing"],
            set_subject_key_id=True,
            opts=self.within(protect=self.settings.protect),
        )
        return key, made

    def _kept(self, name: str, files: Mapping[str, pulumi.Input[str]]) -> Credential:
        secret = aws.secretsmanager.Secret(
            f"inside-{name}",
            name=f"{self.settings.prefix}/inside/{name}",
            description=f"What {name} shows to other parts of this cluster, and whom it trusts",
            kms_key_id=self._keys.operations.arn,
            recovery_window_in_days=7,
            opts=self.within(),
        )
        version = aws.secretsmanager.SecretVersion(
            f"inside-{name}",
            secret_id=secret.id,
            secret_string=_secret(pulumi.Output.json_dumps(files)),
            opts=self.within(),
        )
        return Credential(secret, version)


def _secret(value: pulumi.Output[str]) -> pulumi.Output[str]:
    """The same, encrypted wherever Pulumi keeps it."""
    found: pulumi.Output[str] = pulumi.Output.secret(value)
    return found


def may_read(tier: Tier, keys: Keys, secrets: Sequence[pulumi.Input[str]]) -> list[Statement]:
    """What reading secrets takes: themselves, and their key, through Secrets Manager alone."""
    service = f"secretsmanager.{tier.place.region}.amazonaws.com"
    return [
        allow("Secrets", ["secretsmanager:GetSecretValue"], secrets),
        allow(
            "SecretsKey",
            ["kms:Decrypt"],
            [keys.operations.arn],
            {"StringEquals": {"kms:ViaService": service}},
        ),
    ]
