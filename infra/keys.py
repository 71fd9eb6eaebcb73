"""Keys and secrets: what is encrypted with what, and the one secret that brokers share.

Two keys, so that whoever may read logs can't read messages: ``data`` for volumes, objects and
images; ``operations`` for logs, secrets, alarms and queues. Both rotate every year by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from infra.config import Settings
from infra.policies import document
from infra.tier import Place, Tier

USE_KEY = ("kms:Decrypt", "kms:GenerateDataKey")
"""What reading and writing encrypted objects takes."""


class Keys(Tier):
    """The keys of a deployment and its secret."""

    def __init__(self, settings: Settings, place: Place, parent: pulumi.Resource) -> None:
        super().__init__("Keys", settings, place, parent)
        self.data = self._key("data", "Sulina's messages: volumes, objects, images", [])
        logs = f"logs.{place.region}.amazonaws.com"
        groups = place.arn("logs", f"log-group:/{settings.prefix}/*")
        self.operations = self._key(
            "operations",
            "Sulina's logs, secrets, alarms and queues",
            [
                self._use(
                    "Logs", logs, {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}}
                ),
                self._use("Alarms", "cloudwatch.amazonaws.com", self._ours()),
                self._use("Rules", "events.amazonaws.com", self._ours()),
            ],
        )
        self.token = self._token()
        self.register_outputs({"data": self.data.arn, "operations": self.operations.arn})

    def _key(self, name: str, what: str, more: Sequence[Mapping[str, Any]]) -> aws.kms.Key:
        # In the policy of a key the star stands for this key. Without the first statement nobody
        # could use or change it, not even through policies of roles.
        account = {
            "Sid": "PoliciesOfThisAccount",
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:{self.place.partition}:iam::{self.place.account}:root"},
            "Action": "kms:*",
            "Resource": "*",
        }
        key = aws.kms.Key(
            name,
            description=what,
            enable_key_rotation=True,
            deletion_window_in_days=30,
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

    def _use(self, sid: str, service: str, when: Mapping[str, Any]) -> Mapping[str, Any]:
        return {
            "Sid": sid,
            "Effect": "Allow",
            "Principal": {"Service": service},
            "Action": ["kms:Encrypt", *USE_KEY, "kms:DescribeKey"],
            "Resource": "*",
            "Condition": when,
        }

    def _ours(self) -> Mapping[str, Any]:
        return {"StringEquals": {"aws:SourceAccount": self.place.account}}

    def _token(self) -> aws.secretsmanager.Secret:
        """The token that may do everything; operators read it once to hand out smaller ones."""
        secret = aws.secretsmanager.Secret(
            "token",
            name=f"{self.settings.prefix}/root-token",
            description="The token that may do everything on this cluster of Sulina",
            kms_key_id=self.operations.arn,
            recovery_window_in_days=7,
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
            # Every preview makes another one up; the first stays until somebody rotates it.
            opts=self.within(ignore_changes=["secretString"]),
        )
        return secret
