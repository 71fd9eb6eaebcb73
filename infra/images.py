"""Where container images are kept: one repository of ECR for each, and what becomes of old ones.

Tags can't be moved: what was tested under a tag is what runs under it. The network has no way to
other registries, so etcd's image is copied here as well.

Images are built and pushed by `pulumi up` itself, unless the configuration names those that were
pushed before. Built ones are named after what they are made of, so that the same sources are built
once, and run by their digest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_docker_build as docker_build

from infra.artefacts import ROOT, dockerfile_of, from_program, source_tag
from infra.config import Settings
from infra.keys import Keys
from infra.policies import Statement, allow, anywhere
from infra.tier import Place, Tier

ETCD = "etcd"
IMAGES = ("broker", "storage", ETCD)
_PLATFORMS = {
    "arm64": docker_build.Platform.LINUX_ARM64,
    "x86_64": docker_build.Platform.LINUX_AMD64,
}
_KEPT = 20


class Images(Tier):
    """The repositories, by image."""

    def __init__(
        self, settings: Settings, place: Place, keys: Keys, parent: pulumi.Resource
    ) -> None:
        super().__init__("Images", settings, place, parent)
        self.repositories = {image: self._repository(image, keys) for image in IMAGES}
        if settings.images == "build":
            login = self._login()
            self._references = {image: self._built(image, login) for image in IMAGES}
        else:
            self._references = {image: self._tagged(image) for image in IMAGES}
        self.register_outputs({})

    def reference(self, image: str) -> pulumi.Output[str]:
        """The name of an image as a task definition has it; there when the image is."""
        return self._references[image]

    def _tagged(self, image: str) -> pulumi.Output[str]:
        settings = self.settings
        tag = settings.etcd_version if image == ETCD else settings.image_tag or "none"
        return pulumi.Output.concat(self.repositories[image].repository_url, ":", tag)

    def _built(self, image: str, login: Any) -> pulumi.Output[str]:
        settings, url = self.settings, self.repositories[image].repository_url
        # Whatever changes in the context is a reason to build again, and tags can't be moved: so a
        # context is what its tag stands for, and nothing else.
        if image == ETCD:
            tag, context = settings.etcd_version, dockerfile_of(image).parent
        else:
            tag, context = source_tag(), ROOT
        made = docker_build.Image(
            image,
            context=docker_build.BuildContextArgs(location=from_program(context)),
            dockerfile=docker_build.DockerfileArgs(location=from_program(dockerfile_of(image))),
            build_args={"VERSION": tag},
            platforms=[_PLATFORMS[settings.architecture]],
            tags=[pulumi.Output.concat(url, ":", tag)],
            registries=[
                docker_build.RegistryArgs(
                    address=url,
                    username=login.user_name,
                    password=pulumi.Output.secret(login.password),
                )
            ],
            push=True,
            # A preview changes nothing, and needs no Docker.
            build_on_preview=False,
            # What was pushed may still run: the registry's own rule removes old images.
            opts=self.within(retain_on_delete=True),
        )
        return made.ref

    def _login(self) -> Any:
        """The login to ECR of whoever deploys, good for 12 hours."""
        return aws.ecr.get_authorization_token_output(
            registry_id=self.place.account, opts=pulumi.InvokeOutputOptions(parent=self)
        )

    def may_pull(self, images: Sequence[str]) -> list[Statement]:
        """What pulling these images takes."""
        return [
            allow(
                "Pull",
                [
                    "ecr:BatchCheckLayerAvailability",
                    "ecr:BatchGetImage",
                    "ecr:GetDownloadUrlForLayer",
                ],
                [self.repositories[image].arn for image in images],
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
