"""What a bucket keeps of deleted objects: versions, for as long as its lifecycle says, and
replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from sulina.errors import NotFound, SulinaError
from sulina.objects.keeping import Keeping

_NEEDED: Final = (
    "s3:GetBucketVersioning, s3:GetLifecycleConfiguration, s3:GetReplicationConfiguration"
)


class Ask(Protocol):
    """The answer to a request by the name of the client's method; an error of Sulina's if none."""

    async def __call__(self, method: str) -> Mapping[str, Any]: ...


async def kept_by(ask: Ask, bucket: str, prefix: str) -> Keeping:
    """What is kept of objects under ``prefix``."""
    try:
        versioning = await ask("get_bucket_versioning")
        # Versions that were written before it was suspended stay.
        keeps = versioning.get("Status") in ("Enabled", "Suspended")
        lifecycle = await _or_nothing(ask, "get_bucket_lifecycle_configuration") if keeps else {}
        replication = await _or_nothing(ask, "get_bucket_replication")
    except SulinaError as error:
        return Keeping(
            f"it is not known whether the bucket {bucket} keeps versions or replicas ({error}): "
            f"allow {_NEEDED}, or look with `aws s3api get-bucket-versioning --bucket {bucket}`",
            None,
        )
    found: list[str] = []
    days: int | None = 0
    if keeps:
        days = _days(lifecycle.get("Rules", ()), prefix)
        found.append(
            f"the bucket {bucket} keeps versions of deleted objects for good: give it a lifecycle "
            "rule with NoncurrentVersionExpiration"
            if days is None
            else f"the bucket {bucket} keeps versions of deleted objects for {days} days"
        )
    if to := _replicas(replication.get("ReplicationConfiguration", {}), prefix):
        days = None
        found.append(f"S3 replicates it to {', '.join(to)}, where versions go by that one's rules")
    return Keeping("; ".join(found), days)


async def _or_nothing(ask: Ask, method: str) -> Mapping[str, Any]:
    try:
        return await ask(method)
    except NotFound:
        return {}


def _days(rules: Sequence[Mapping[str, Any]], prefix: str) -> int | None:
    """After how many days a rule for all objects under ``prefix`` deletes their versions."""
    found = [
        int(expiry["NoncurrentDays"])
        for rule in rules
        if _applies(rule, prefix)
        and (expiry := rule.get("NoncurrentVersionExpiration"))
        and "NoncurrentDays" in expiry
        and not expiry.get("NewerNoncurrentVersions")
    ]
    return min(found, default=None)


def _replicas(configuration: Mapping[str, Any], prefix: str) -> list[str]:
    """Buckets that may get copies of objects under ``prefix``."""
    found = {
        str(rule["Destination"]["Bucket"]).rpartition(":")[2]
        for rule in configuration.get("Rules", ())
        if rule.get("Status") == "Enabled"
        and (prefix.startswith(_prefix(rule)) or _prefix(rule).startswith(prefix))
    }
    return sorted(found)


def _applies(rule: Mapping[str, Any], prefix: str) -> bool:
    """Whether a rule is for all objects under ``prefix``, whatever their tags and sizes."""
    selects = rule.get("Filter") or {}
    selects = selects.get("And", selects)
    return (
        rule.get("Status") == "Enabled"
        and not (selects.keys() - {"Prefix"})
        and prefix.startswith(_prefix(rule))
    )


def _prefix(rule: Mapping[str, Any]) -> str:
    selects = rule.get("Filter") or {}
    selects = selects.get("And", selects)
    return str(selects.get("Prefix", rule.get("Prefix", "")) or "")
