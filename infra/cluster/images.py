"""Container images: one ECR repository each, and the images that `pulumi up` builds and pushes.

Tags are immutable: an image that was tested under a tag is the one that runs. The VPC cannot reach
other registries, so etcd's image is copied here as well.

Images that the configuration names by tag are not built. A built image is tagged with a digest of
its sources, so the same sources are built once, and containers refer to it by its own digest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_docker_build as docker_build

from infra.artifacts import ROOT, dockerfile_of, from_program, source_tag
from infra.component import Component, Deployment
from infra.security.iam import Statement, allow, allow_any_resource
from infra.security.keys import Keys

ETCD = "etcd"
IMAGES = ("broker", "storage", ETCD)
_PLATFORMS = {
    "arm64": docker_build.Platform.LINUX_ARM64,
    "x86_64": docker_build.Platform.LINUX_AMD64,
}
_KEPT = 20


class Images(Component):
    """The repositories by image name."""

    def __init__(self, keys: Keys, parent: Deployment) -> None:
        super().__init__("Images", parent)
        self.repositories = {image: self._repository(image, keys) for image in IMAGES}
        if self.settings.images == "build":
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
        # Any change in the build context triggers a build, and a tag cannot be pushed twice: so the
        # context must contain exactly what the tag is derived from.
        tag, context = source_tag(image, settings.architecture), ROOT
        version = tag
        if image == ETCD:
            version, context = settings.etcd_version, dockerfile_of(image).parent
            tag = f"{version}-{tag}"
        made = docker_build.Image(
            image,
            context=docker_build.BuildContextArgs(location=from_program(context)),
            dockerfile=docker_build.DockerfileArgs(location=from_program(dockerfile_of(image))),
            build_args={"VERSION": version},
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
            # A preview must not need Docker.
            build_on_preview=False,
            # A pushed image may still be running; the lifecycle policy below removes old ones.
            opts=self.within(retain_on_delete=True),
        )
        return made.ref

    def _login(self) -> Any:
        """The ECR login of the deploying user, valid for 12 hours."""
        return aws.ecr.get_authorization_token_output(
            registry_id=self.region.account, opts=pulumi.InvokeOutputOptions(parent=self)
        )

    def may_pull(self, images: Sequence[str]) -> list[Statement]:
        """The permissions to pull images."""
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
            allow_any_resource("Registry", ["ecr:GetAuthorizationToken"]),
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
            "description": f"keep the newest {_KEPT} images",
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
