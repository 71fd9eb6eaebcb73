"""What deploying images, machines and their volumes needs."""

from __future__ import annotations

from typing import Final

from infra.permissions.needs import (
    REQUEST_TAG,
    UNTAGGED,
    Needs,
    anything,
    named,
    new,
    ours,
    pass_role,
    through,
)

_VOLUME_KEY = through(
    "ec2",
    "CreateGrant Decrypt DescribeKey GenerateDataKeyWithoutPlaintext ReEncryptFrom ReEncryptTo",
)

MACHINES: Final[Needs] = {
    "aws:ecr/repository:Repository": (
        named(
            "ecr",
            "CreateRepository DeleteRepository DescribeRepositories ListTagsForResource "
            "PutImageScanningConfiguration PutImageTagMutability TagResource UntagResource",
            "repository/{prefix}/*",
        ),
        through("ecr", "CreateGrant DescribeKey RetireGrant"),
    ),
    "aws:ecr/lifecyclePolicy:LifecyclePolicy": (
        named(
            "ecr",
            "DeleteLifecyclePolicy GetLifecyclePolicy PutLifecyclePolicy",
            "repository/{prefix}/*",
        ),
    ),
    "docker-build:index:Image": (
        named(
            "ecr",
            "BatchCheckLayerAvailability BatchGetImage CompleteLayerUpload GetDownloadUrlForLayer "
            "InitiateLayerUpload PutImage UploadLayerPart",
            "repository/{prefix}/*",
        ),
    ),
    "aws:ec2/instance:Instance": (
        new("ec2", "RunInstances", "instance/*"),
        ours("ec2", "RunInstances", "subnet/*", "security-group/*"),
        named(
            "ec2",
            "RunInstances",
            *("network-interface/*", "volume/*", "arn:aws:ec2:{region}::image/*"),
        ),
        ours(
            "ec2",
            "DescribeInstanceAttribute ModifyInstanceAttribute ModifyInstanceMaintenanceOptions "
            "ModifyInstanceMetadataOptions StartInstances StopInstances TerminateInstances",
            "instance/*",
        ),
        # The tags of a root disk are set after the machine has started.
        named("ec2", "CreateTags", "volume/*", when={**REQUEST_TAG, **UNTAGGED}),
        anything(
            "ec2",
            "DescribeImages DescribeInstanceCreditSpecifications "
            "DescribeInstanceTypes DescribeInstances DescribeTags DescribeVolumes",
        ),
        _VOLUME_KEY,
        pass_role("ec2.amazonaws.com"),
    ),
    "aws:ebs/volume:Volume": (
        new("ec2", "CreateVolume", "volume/*"),
        ours("ec2", "CreateSnapshot DeleteVolume ModifyVolume", "volume/*"),
        # A protected volume is copied before it is deleted.
        new("ec2", "CreateSnapshot CreateTags", "arn:aws:ec2:{region}::snapshot/*"),
        anything("ec2", "DescribeSnapshots DescribeVolumes DescribeVolumesModifications"),
        _VOLUME_KEY,
    ),
    "aws:ec2/volumeAttachment:VolumeAttachment": (
        ours("ec2", "AttachVolume", "instance/*", "volume/*"),
        anything("ec2", "DescribeInstances DescribeVolumes"),
    ),
    "aws:dlm/lifecyclePolicy:LifecyclePolicy": (
        new("dlm", "CreateLifecyclePolicy"),
        new("dlm", "TagResource", "policy/*"),
        ours(
            "dlm",
            "DeleteLifecyclePolicy GetLifecyclePolicy ListTagsForResource TagResource "
            "UntagResource UpdateLifecyclePolicy",
            "policy/*",
        ),
        pass_role("dlm.amazonaws.com"),
    ),
    "aws:iam/instanceProfile:InstanceProfile": (
        named(
            "iam",
            "AddRoleToInstanceProfile CreateInstanceProfile DeleteInstanceProfile "
            "GetInstanceProfile ListInstanceProfileTags RemoveRoleFromInstanceProfile "
            "TagInstanceProfile UntagInstanceProfile",
            "instance-profile/{prefix}-*",
        ),
        named("iam", "GetRole", "role/{prefix}-*"),
        pass_role("ec2.amazonaws.com"),
    ),
}
