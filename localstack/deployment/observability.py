"""Logs, alarms, rules, the dashboard, and the alarms' topic."""

from __future__ import annotations

from localstack.deployment.account import EmulatedAccount, Made, makes
from localstack.deployment.inputs import ResourceInputs


@makes("cloudwatch/logGroup:LogGroup")
def log_group(account: EmulatedAccount, given: ResourceInputs) -> Made:
    logs, name = account.client("logs"), given.take("name")
    logs.create_log_group(
        logGroupName=name, kmsKeyId=given.take("kmsKeyId"), tags=given.take("tags")
    )
    logs.put_retention_policy(logGroupName=name, retentionInDays=given.take("retentionInDays"))
    return name, {"name": name}


@makes("cloudwatch/logMetricFilter:LogMetricFilter")
def metric_filter(account: EmulatedAccount, given: ResourceInputs) -> Made:
    change = given.take("metricTransformation")
    name = given.take("name")
    account.client("logs").put_metric_filter(
        logGroupName=given.take("logGroupName"),
        filterName=name,
        filterPattern=given.take("pattern"),
        metricTransformations=[
            {
                "metricName": change["name"],
                "metricNamespace": change["namespace"],
                "metricValue": change["value"],
                "dimensions": change["dimensions"],
            }
        ],
    )
    return name, {}


@makes("cloudwatch/metricAlarm:MetricAlarm")
def alarm(account: EmulatedAccount, given: ResourceInputs) -> Made:
    tags, name = given.tags(), given.take("name")
    dimensions = [{"Name": n, "Value": value} for n, value in given.take("dimensions").items()]
    request = given.pascal()
    request["OKActions"] = request.pop("OkActions")
    account.client("cloudwatch").put_metric_alarm(
        AlarmName=name, Dimensions=dimensions, Tags=tags, **request
    )
    return name, {}


@makes("cloudwatch/dashboard:Dashboard")
def dashboard(account: EmulatedAccount, given: ResourceInputs) -> Made:
    request = given.pascal()
    account.client("cloudwatch").put_dashboard(**request)
    return request["DashboardName"], {}


@makes("cloudwatch/eventRule:EventRule")
def rule(account: EmulatedAccount, given: ResourceInputs) -> Made:
    tags, name = given.tags(), given.take("name")
    made = account.client("events").put_rule(Name=name, Tags=tags, **given.pascal())
    return name, {"arn": made["RuleArn"], "name": name}


@makes("cloudwatch/eventTarget:EventTarget")
def target(account: EmulatedAccount, given: ResourceInputs) -> Made:
    made = account.client("events").put_targets(
        Rule=given.take("rule"), Targets=[{"Id": "topic", "Arn": given.take("arn")}]
    )
    assert not made["FailedEntryCount"]
    return "topic", {}


@makes("sns/topic:Topic")
def topic(account: EmulatedAccount, given: ResourceInputs) -> Made:
    name = given.take("name")
    attributes = {"KmsMasterKeyId": given.take("kmsMasterKeyId")}
    made = account.client("sns").create_topic(Name=name, Attributes=attributes, Tags=given.tags())
    return made["TopicArn"], {"arn": made["TopicArn"], "name": name}


@makes("sns/topicPolicy:TopicPolicy")
def topic_policy(account: EmulatedAccount, given: ResourceInputs) -> Made:
    arn = given.take("arn")
    account.client("sns").set_topic_attributes(
        TopicArn=arn, AttributeName="Policy", AttributeValue=given.take("policy")
    )
    return arn, {}


@makes("sns/topicSubscription:TopicSubscription")
def subscription(account: EmulatedAccount, given: ResourceInputs) -> Made:
    made = account.client("sns").subscribe(
        TopicArn=given.take("topic"),
        Protocol=given.take("protocol"),
        Endpoint=given.take("endpoint"),
    )
    return made["SubscriptionArn"], {}


@makes("amp/workspace:Workspace")
def workspace(account: EmulatedAccount, given: ResourceInputs) -> Made:
    made = account.client("amp").create_workspace(**given.rest())
    endpoint = f"https://aps-workspaces.{account.region}.amazonaws.com/workspaces/"
    url = f"{endpoint}{made['workspaceId']}/"
    return made["workspaceId"], {"arn": made["arn"], "prometheusEndpoint": url}


@makes("amp/ruleGroupNamespace:RuleGroupNamespace")
def rules(account: EmulatedAccount, given: ResourceInputs) -> Made:
    request = given.rest()
    made = account.client("amp").create_rule_groups_namespace(
        **{**request, "data": request["data"].encode()}
    )
    return made["arn"], {"arn": made["arn"]}


@makes("amp/alertManagerDefinition:AlertManagerDefinition")
def alerts(account: EmulatedAccount, given: ResourceInputs) -> Made:
    """moto has no alert manager: the request is checked against AWS's model."""
    request = {"workspaceId": given.take("workspaceId"), "data": given.take("definition").encode()}
    account.check("amp", "CreateAlertManagerDefinition", request)
    return request["workspaceId"], {}
