"""Where container images are kept: one repository of ECR for each, and what becomes of old ones.

Tags can't be moved: what was tested under a tag is what runs under it. The network has no way to
other registries, so etcd's image is copied here as well (docs/deploy.md has the commands).
"""

from __future__ import annotations

import json

import pulumi
import pulumi_aws as aws

from infra.config import Settings
from infra.keys import Keys
from infra.policies import Statement, allow, anywhere
from infra.tier import Place, Tier

IMAGES = ("broker", "storage", "etcd")
_KEPT = 20


class Images(Tier):
    """The repositories, by image."""

    def __init__(
        self, settings: Settings, place: Place, keys: Keys, parent: pulumi.Resource
    ) -> None:
        super().__init__("Images", settings, place, parent)
        self.repositories = {image: self._repository(image, keys) for image in IMAGES}
        self.register_outputs({})

    def tagged(self, image: str, tag: str) -> pulumi.Output[str]:
        """The name of an image as a task definition has it."""
        return pulumi.Output.concat(self.repositories[image].repository_url, ":", tag)

    def may_pull(self, image: str) -> list[Statement]:
        """What pulling one image takes."""
        return [
            allow(
                "Pull",
                [
                    "ecr:BatchCheckLayerAvailability",
                    "ecr:BatchGetImage",
                    "ecr:GetDownloadUrlForLayer",
                ],
                [self.repositories[image].arn],
            ),
            anywhere("Registry", ["ecr:GetAuthorizationToken"]),
        ]

    def _repository(self, image: str, keys: Keys) -> aws.ecr.Repository:
        repository = aws.ecr.Repository(
            image,
            name=f"{self.settings.prefix}/{image}",
            image_tag_mutability="IMMUTABLE",
            image_scanning_configuration={"scan_on_push": True},
            encryption_configurations=[{"encryption_type": "KMS", "kms_key": keys.data.arn}],
            force_delete=not self.settings.protect,
            opts=self.within(),
        )
        rule = {
            "rulePriority": 1,
            "description": f"the newest {_KEPT} stay",
            "selection": {
                "tagStatus": "any",
                "countType": "imageCountMoreThan",
                "countNumber": _KEPT,
            },
            "action": {"type": "expire"},
        }
        aws.ecr.LifecyclePolicy(
            image,
            repository=repository.name,
            policy=json.dumps({"rules": [rule]}),
            opts=self.within(),
        )
        return repository
