"""Keys, secrets, buckets, repositories, volumes and snapshots."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from localstack.deployment.account import BUCKET_SETTINGS, EmulatedAccount, Made, makes
from localstack.deployment.inputs import ResourceInputs, pascal


@makes("kms/key:Key")
def key(account: EmulatedAccount, given: ResourceInputs) -> Made:
    kms = account.client("kms")
    given.drop("deletionWindowInDays")  # said when a key is deleted
    rotate = given.take("enableKeyRotation")
    tags = given.tags("TagKey", "TagValue")
    made = kms.create_key(Tags=tags, **given.pascal())["KeyMetadata"]
    if rotate:
        kms.enable_key_rotation(KeyId=made["KeyId"])
    return made["KeyId"], {"arn": made["Arn"], "keyId": made["KeyId"]}


@makes("kms/alias:Alias")
def alias(account: EmulatedAccount, given: ResourceInputs) -> Made:
    name = given.take("name")
    account.client("kms").create_alias(AliasName=name, **given.pascal())
    return name, {}


@makes("secretsmanager/secret:Secret")
def secret(account: EmulatedAccount, given: ResourceInputs) -> Made:
    given.drop("recoveryWindowInDays")  # said when a secret is deleted
    tags = given.tags()
    made = account.client("secretsmanager").create_secret(Tags=tags, **given.pascal())
    return made["ARN"], {"arn": made["ARN"], "name": made["Name"]}


@makes("secretsmanager/secretVersion:SecretVersion")
def secret_version(account: EmulatedAccount, given: ResourceInputs) -> Made:
    made = account.client("secretsmanager").put_secret_value(**given.pascal())
    return made["VersionId"], {"versionId": made["VersionId"]}


@makes("s3/bucket:Bucket")
def bucket(account: EmulatedAccount, given: ResourceInputs) -> Made:
    name = given.take("bucket")
    given.drop("forceDestroy")
    where = {"LocationConstraint": account.region}
    given_region = {} if account.region == "us-east-1" else {"CreateBucketConfiguration": where}
    for s3 in (account.client("s3"), account.client(BUCKET_SETTINGS)):
        try:
            s3.create_bucket(Bucket=name, **given_region)
        except ClientError as error:
            # Both clients may be the same, and an emulator may have kept its data.
            if not error.response["Error"]["Code"].startswith("BucketAlready"):
                raise
    s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": given.tags()})
    return name, {"arn": f"arn:aws:s3:::{name}"}


@makes("s3/bucketPublicAccessBlock:BucketPublicAccessBlock")
def access_block(account: EmulatedAccount, given: ResourceInputs) -> Made:
    name = given.take("bucket")
    account.client(BUCKET_SETTINGS).put_public_access_block(
        Bucket=name, PublicAccessBlockConfiguration=given.pascal()
    )
    return name, {}


@makes("s3/bucketOwnershipControls:BucketOwnershipControls")
def ownership(account: EmulatedAccount, given: ResourceInputs) -> Made:
    name = given.take("bucket")
    account.client(BUCKET_SETTINGS).put_bucket_ownership_controls(
        Bucket=name, OwnershipControls={"Rules": [pascal(given.take("rule"))]}
    )
    return name, {}


@makes("s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration")
def encryption(account: EmulatedAccount, given: ResourceInputs) -> Made:
    name = given.take("bucket")
    rules = [
        {
            "ApplyServerSideEncryptionByDefault": {
                "SSEAlgorithm": rule["applyServerSideEncryptionByDefault"]["sseAlgorithm"],
                "KMSMasterKeyID": rule["applyServerSideEncryptionByDefault"]["kmsMasterKeyId"],
            },
            "BucketKeyEnabled": rule["bucketKeyEnabled"],
        }
        for rule in given.take("rules")
    ]
    account.client(BUCKET_SETTINGS).put_bucket_encryption(
        Bucket=name, ServerSideEncryptionConfiguration={"Rules": rules}
    )
    return name, {}


@makes("s3/bucketVersioning:BucketVersioning")
def versioning(account: EmulatedAccount, given: ResourceInputs) -> Made:
    name = given.take("bucket")
    account.client(BUCKET_SETTINGS).put_bucket_versioning(
        Bucket=name, VersioningConfiguration=pascal(given.take("versioningConfiguration"))
    )
    return name, {}


@makes("s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration")
def lifecycle(account: EmulatedAccount, given: ResourceInputs) -> Made:
    name = given.take("bucket")
    rules: list[dict[str, Any]] = [pascal(rule) for rule in given.take("rules")]
    for rule in rules:
        rule["ID"] = rule.pop("Id")
    account.client(BUCKET_SETTINGS).put_bucket_lifecycle_configuration(
        Bucket=name, LifecycleConfiguration={"Rules": rules}
    )
    return name, {}


@makes("s3/bucketPolicy:BucketPolicy")
def bucket_policy(account: EmulatedAccount, given: ResourceInputs) -> Made:
    request = given.pascal()
    # It refuses requests without TLS, and moto, which has none, goes by it.
    account.at_end.append(partial(account.client(BUCKET_SETTINGS).put_bucket_policy, **request))
    return request["Bucket"], {}


@makes("s3/bucketObjectv2:BucketObjectv2")
def bucket_object(account: EmulatedAccount, given: ResourceInputs) -> Made:
    given.drop("tags")
    key, content = given.take("key"), Path(given.take("source").path).read_bytes()
    account.client("s3").put_object(Bucket=given.take("bucket"), Key=key, Body=content)
    return key, {}


@makes("s3/bucketNotification:BucketNotification")
def notification(account: EmulatedAccount, given: ResourceInputs) -> Made:
    name = given.take("bucket")
    calls = [
        {
            "LambdaFunctionArn": call["lambdaFunctionArn"],
            "Events": call["events"],
            "Filter": {
                "Key": {
                    "FilterRules": [
                        {"Name": "prefix", "Value": call["filterPrefix"]},
                        {"Name": "suffix", "Value": call["filterSuffix"]},
                    ]
                }
            },
        }
        for call in given.take("lambdaFunctions")
    ]
    account.client(BUCKET_SETTINGS).put_bucket_notification_configuration(
        Bucket=name,
        NotificationConfiguration={"LambdaFunctionConfigurations": calls},
    )
    return name, {}


@makes("ecr/repository:Repository")
def repository(account: EmulatedAccount, given: ResourceInputs) -> Made:
    given.drop("forceDelete")
    made = account.client("ecr").create_repository(
        repositoryName=given.take("name"),
        imageTagMutability=given.take("imageTagMutability"),
        imageScanningConfiguration=given.take("imageScanningConfiguration"),
        encryptionConfiguration=given.take("encryptionConfigurations")[0],
        tags=given.tags(),
    )["repository"]
    return made["repositoryName"], {
        "arn": made["repositoryArn"],
        "repositoryUrl": made["repositoryUri"],
    }


@makes("ecr/lifecyclePolicy:LifecyclePolicy")
def image_lifecycle(account: EmulatedAccount, given: ResourceInputs) -> Made:
    name = given.take("repository")
    account.client("ecr").put_lifecycle_policy(
        repositoryName=name, lifecyclePolicyText=given.take("policy")
    )
    return name, {}


@makes("ebs/volume:Volume")
def volume(account: EmulatedAccount, given: ResourceInputs) -> Made:
    given.drop("finalSnapshot")
    tags = [{"ResourceType": "volume", "Tags": given.tags()}]
    request = given.pascal()
    request["VolumeType"] = request.pop("Type")
    made = account.client("ec2").create_volume(TagSpecifications=tags, **request)
    return made["VolumeId"], {"arn": f"arn:aws:ec2:{account.region}::volume/{made['VolumeId']}"}


@makes("ec2/volumeAttachment:VolumeAttachment")
def attachment(account: EmulatedAccount, given: ResourceInputs) -> Made:
    given.drop("skipDestroy")
    account.client("ec2").attach_volume(
        Device=given.take("deviceName"),
        VolumeId=given.take("volumeId"),
        InstanceId=given.take("instanceId"),
    )
    return "attached", {}


@makes("dlm/lifecyclePolicy:LifecyclePolicy")
def copies(account: EmulatedAccount, given: ResourceInputs) -> Made:
    """No emulator knows these; AWS's own model of the request is all that can be asked."""
    tags = given.may("tags")
    request = given.pascal()
    details = request["PolicyDetails"]
    details["TargetTags"] = [
        {"Key": name, "Value": value} for name, value in details["TargetTags"].items()
    ]
    account.check("dlm", "CreateLifecyclePolicy", {**request, "Tags": tags})
    return "policy", {}
