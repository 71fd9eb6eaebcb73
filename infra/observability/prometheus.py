"""Amazon Managed Service for Prometheus with Sulina's rules, and the dashboards for Grafana.

Optional (``sulina:prometheus``), because metrics cost money by the sample. The workspace receives
what a collector of yours writes to it, evaluates the same rules as any Prometheus, and publishes
alerts to the topic of the alarms. Dashboards are files in the work bucket: Grafana has an API of
its own to import them, which AWS's does not include.
"""

from __future__ import annotations

from typing import Final

import pulumi
import pulumi_aws as aws

from infra.artifacts import ROOT
from infra.component import Component, Deployment
from infra.lake.buckets import MONITORING, LakeBuckets
from infra.security.iam import allow, document

RULES: Final = ROOT / "monitoring" / "alerts.yml"
DASHBOARDS: Final = ROOT / "monitoring" / "dashboards"
_WRITE: Final = ("aps:RemoteWrite",)
_READ: Final = ("aps:GetLabels", "aps:GetMetricMetadata", "aps:GetSeries", "aps:QueryMetrics")
_ALERTS: Final = """\
alertmanager_config: |
  route:
    receiver: alarms
    group_by: [alertname]
  receivers:
    - name: alarms
      sns_configs:
        - topic_arn: {topic}
          sigv4:
            region: {region}
          send_resolved: true
          subject: '{{{{ .GroupLabels.alertname }}}}'
"""


class Prometheus(Component):
    """The workspace with its rules and alerts, two policies, and the dashboards."""

    def __init__(self, lake: LakeBuckets, topic: aws.sns.Topic, parent: Deployment) -> None:
        super().__init__("Prometheus", parent)
        region = self.region.name
        self.workspace = aws.amp.Workspace(
            "prometheus", alias=self.settings.prefix, opts=self.within()
        )
        rules = aws.amp.RuleGroupNamespace(
            "rules",
            name="sulina",
            workspace_id=self.workspace.id,
            data=RULES.read_text(),
            opts=self.within(),
        )
        aws.amp.AlertManagerDefinition(
            "alerts",
            workspace_id=self.workspace.id,
            definition=topic.arn.apply(lambda arn: _ALERTS.format(topic=arn, region=region)),
            # A workspace refuses two changes at the same time.
            opts=self.within(depends_on=[rules]),
        )
        self.writers = self._policy("metrics-writers", "Writes Sulina's metrics", _WRITE)
        self.readers = self._policy("metrics-readers", "Queries Sulina's metrics", _READ)
        for path in sorted(DASHBOARDS.glob("*.json")):
            aws.s3.BucketObjectv2(
                f"dashboard-{path.stem}",
                bucket=lake.work.bucket.id,
                key=f"{MONITORING}{path.name}",
                source=pulumi.FileAsset(str(path)),
                opts=self.within(),
            )
        self.dashboards = f"s3://{lake.work.name}/{MONITORING}"
        self.register_outputs({"workspace": self.workspace.id})

    def _policy(self, name: str, description: str, actions: tuple[str, ...]) -> aws.iam.Policy:
        return aws.iam.Policy(
            name,
            name=self.named(name),
            description=description,
            policy=document([allow("Metrics", actions, [self.workspace.arn])]),
            opts=self.within(),
        )
