"""Encryption keys, and the root token that brokers share.

There are two keys, so that access to logs does not give access to messages: ``data`` encrypts
volumes, objects and images; ``operations`` encrypts logs, secrets and alarms. AWS rotates both
every year.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from infra.component import Component, Deployment
from infra.security.iam import Statement, allow, allow_principal, document

USE_KEY = ("kms:Decrypt", "kms:GenerateDataKey")
"""The actions needed to read and write encrypted objects."""


class Keys(Component):
    """The deployment's keys and its root token."""

    def __init__(self, parent: Deployment) -> None:
        super().__init__("Keys", parent)
        settings, region = self.settings, self.region
        # While a deleted secret can be recovered, no other one can have its name.
        self.recovery_days = 7 if settings.protect else 0
        self.data = self._key("data", "Sulina's messages: volumes, objects, images", [])
        logs = f"logs.{region.name}.amazonaws.com"
        groups = region.arn("logs", f"log-group:/{settings.prefix}/*")
        of_account = {"StringEquals": {"aws:SourceAccount": region.account}}
        self.operations = self._key(
            "operations",
            "Sulina's logs, secrets and alarms",
            [
                self._use(
                    "Logs",
                    logs,
                    {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
                    "kms:ReEncryptFrom",
                    "kms:ReEncryptTo",
                ),
                self._use(
                    "Alarms",
                    "cloudwatch.amazonaws.com",
                    of_account,
                ),
                # EventBridge does not say on whose behalf it publishes to an encrypted topic.
                self._use("Rules", "events.amazonaws.com", None),
                *(
                    [self._use("Alerts", "aps.amazonaws.com", of_account)]
                    if self.settings.prometheus
                    else []
                ),
            ],
        )
        self.token = self._token()
        self.register_outputs({"data": self.data.arn, "operations": self.operations.arn})

    def may_read(self, secrets: Sequence[pulumi.Input[str]]) -> list[Statement]:
        """The permissions to read secrets, and to use their key through Secrets Manager only."""
        service = f"secretsmanager.{self.region.name}.amazonaws.com"
        return [
            allow("Secrets", ["secretsmanager:GetSecretValue"], secrets),
            allow(
                "SecretsKey",
                ["kms:Decrypt"],
                [self.operations.arn],
                {"StringEquals": {"kms:ViaService": service}},
            ),
        ]

    def _key(self, name: str, what: str, more: Sequence[Mapping[str, Any]]) -> aws.kms.Key:
        # In a key policy, "*" means this key. Without this statement the key could be neither used
        # nor changed, not even with an IAM policy that allows it.
        root = f"arn:{self.region.partition}:iam::{self.region.account}:root"
        account = allow_principal("AccountPolicies", {"AWS": root}, "kms:*")
        key = aws.kms.Key(
            name,
            description=what,
            enable_key_rotation=True,
            # 7 is the least that AWS accepts. A key that waits for its deletion costs nothing.
            deletion_window_in_days=30 if self.settings.protect else 7,
            policy=document([account, *more]),
            opts=self.within(protect=self.settings.protect),
        )
        aws.kms.Alias(
            name,
            name=f"alias/{self.settings.prefix}/{name}",
            target_key_id=key.key_id,
            opts=self.within(),
        )
        return key

    def _use(
        self, sid: str, service: str, when: Mapping[str, Any] | None, *more: str
    ) -> Mapping[str, Any]:
        actions = ["kms:Encrypt", *USE_KEY, "kms:DescribeKey", *more]
        return allow_principal(sid, {"Service": service}, actions, when=when)

    def _token(self) -> aws.secretsmanager.Secret:
        """The token with every right; operators use it once, to issue narrower tokens."""
        secret = aws.secretsmanager.Secret(
            "token",
            name=f"{self.settings.prefix}/root-token",
            description="The token with every right on this Sulina cluster",
            kms_key_id=self.operations.arn,
            recovery_window_in_days=self.recovery_days,
            opts=self.within(protect=self.settings.protect),
        )
        made = aws.secretsmanager.get_random_password_output(
            password_length=48,
            exclude_punctuation=True,
            opts=pulumi.InvokeOutputOptions(parent=self),
        )
        aws.secretsmanager.SecretVersion(
            "token",
            secret_id=secret.id,
            secret_string=pulumi.Output.secret(made.random_password),
            # Every run generates another password; keep the first until it is rotated on purpose.
            opts=self.within(ignore_changes=["secretString"]),
        )
        return secret
