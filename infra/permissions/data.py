"""What deploying keys, secrets, roles, the lake and its catalog needs."""

from __future__ import annotations

from typing import Final

from infra.permissions.needs import Need, Needs, anything, named, new, ours, through

_GLUE = ("catalog", "database/{underscored}*", "table/{underscored}*")


def _bucket(actions: str) -> tuple[Need]:
    return (named("s3", actions, "{prefix}-*"),)


def _secret(actions: str) -> Need:
    return named("secretsmanager", actions, "secret:{prefix}/*")


DATA: Final[Needs] = {
    "aws:kms/key:Key": (
        new("kms", "CreateKey"),
        new("kms", "TagResource", "key/*"),
        ours(
            "kms",
            "DescribeKey EnableKeyRotation GetKeyPolicy GetKeyRotationStatus ListResourceTags "
            "PutKeyPolicy ScheduleKeyDeletion TagResource UntagResource UpdateKeyDescription",
            "key/*",
        ),
    ),
    "aws:kms/alias:Alias": (
        named("kms", "CreateAlias DeleteAlias UpdateAlias", "alias/{prefix}/*"),
        ours("kms", "CreateAlias DeleteAlias UpdateAlias", "key/*"),
        anything("kms", "ListAliases"),
    ),
    "aws:secretsmanager/secret:Secret": (
        _secret(
            "CreateSecret DeleteSecret DescribeSecret GetResourcePolicy TagResource UntagResource "
            "UpdateSecret"
        ),
    ),
    "aws:secretsmanager/secretVersion:SecretVersion": (
        _secret("DescribeSecret GetSecretValue PutSecretValue UpdateSecretVersionStage"),
        through("secretsmanager", "Decrypt GenerateDataKey"),
    ),
    "aws:iam/role:Role": (
        named(
            "iam",
            "CreateRole DeleteRole GetRole ListAttachedRolePolicies ListInstanceProfilesForRole "
            "ListRolePolicies ListRoleTags TagRole UntagRole UpdateAssumeRolePolicy UpdateRole",
            "role/{prefix}-*",
        ),
    ),
    "aws:iam/rolePolicy:RolePolicy": (
        named("iam", "DeleteRolePolicy GetRolePolicy PutRolePolicy", "role/{prefix}-*"),
    ),
    "aws:iam/policy:Policy": (
        named(
            "iam",
            "CreatePolicy CreatePolicyVersion DeletePolicy DeletePolicyVersion GetPolicy "
            "GetPolicyVersion ListPolicyVersions TagPolicy UntagPolicy",
            "policy/{prefix}-*",
        ),
    ),
    "aws:s3/bucket:Bucket": (
        *_bucket(
            "CreateBucket DeleteBucket GetAccelerateConfiguration GetBucketAcl GetBucketCORS "
            "GetBucketLocation GetBucketLogging GetBucketObjectLockConfiguration GetBucketPolicy "
            "GetBucketRequestPayment GetBucketTagging GetBucketVersioning GetBucketWebsite "
            "GetEncryptionConfiguration GetLifecycleConfiguration GetReplicationConfiguration "
            "ListBucket ListBucketVersions ListTagsForResource PutBucketTagging TagResource "
            "UntagResource"
        ),
        # A bucket that is not protected is emptied before it is deleted.
        named("s3", "DeleteObject DeleteObjectVersion", "{prefix}-*/*"),
    ),
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": _bucket(
        "GetLifecycleConfiguration PutLifecycleConfiguration"
    ),
    "aws:s3/bucketNotification:BucketNotification": _bucket(
        "GetBucketNotification PutBucketNotification"
    ),
    "aws:s3/bucketOwnershipControls:BucketOwnershipControls": _bucket(
        "GetBucketOwnershipControls PutBucketOwnershipControls"
    ),
    "aws:s3/bucketPolicy:BucketPolicy": _bucket(
        "DeleteBucketPolicy GetBucketPolicy PutBucketPolicy"
    ),
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": _bucket(
        "GetBucketPublicAccessBlock PutBucketPublicAccessBlock"
    ),
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": (
        _bucket("GetEncryptionConfiguration PutEncryptionConfiguration")
    ),
    "aws:s3/bucketVersioning:BucketVersioning": _bucket("GetBucketVersioning PutBucketVersioning"),
    "aws:s3/bucketObjectv2:BucketObjectv2": (
        named(
            "s3",
            "DeleteObject GetObject GetObjectTagging PutObject PutObjectTagging",
            "{prefix}-*/*",
        ),
        through("s3", "Decrypt GenerateDataKey"),
    ),
    "aws:glue/catalogDatabase:CatalogDatabase": (
        named("glue", "CreateDatabase GetDatabase UpdateDatabase", *_GLUE[:2]),
        # Deleting a database deletes all that it contains.
        named("glue", "DeleteDatabase", *_GLUE, "userDefinedFunction/{underscored}*"),
        named("glue", "GetTags TagResource UntagResource", _GLUE[1]),
    ),
    "aws:athena/workgroup:Workgroup": (
        named(
            "athena",
            "CreateWorkGroup DeleteWorkGroup GetWorkGroup ListTagsForResource TagResource "
            "UntagResource UpdateWorkGroup",
            "workgroup/{prefix}",
        ),
    ),
}
