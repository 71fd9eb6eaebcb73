"""Functions, schedules, and the queue of failed calls."""

from __future__ import annotations

from pathlib import Path

from localstack.deployment.account import EmulatedAccount, Made, makes
from localstack.deployment.inputs import ResourceInputs, pascal


@makes("lambda/function:Function")
def function(account: EmulatedAccount, given: ResourceInputs) -> Made:
    name, tags = given.take("name"), given.take("tags")
    code = Path(given.take("code").path).read_bytes()
    handler = given.take("handler")
    network = given.may("vpcConfig")
    more = {} if network is None else {"VpcConfig": pascal(network)}
    made = account.client("lambda").create_function(
        FunctionName=name,
        Handler=handler,
        Code={"ZipFile": code},
        Tags=tags,
        **more,
        **given.pascal(),
    )
    return name, {"arn": made["FunctionArn"], "name": name}


@makes("lambda/functionEventInvokeConfig:FunctionEventInvokeConfig")
def on_failure(account: EmulatedAccount, given: ResourceInputs) -> Made:
    request = given.pascal()
    account.client("lambda").put_function_event_invoke_config(**request)
    return request["FunctionName"], {}


@makes("lambda/functionUrl:FunctionUrl")
def function_url(account: EmulatedAccount, given: ResourceInputs) -> Made:
    made = account.client("lambda").create_function_url_config(
        FunctionName=given.take("functionName"), AuthType=given.take("authorizationType")
    )
    return made["FunctionArn"], {"functionUrl": made["FunctionUrl"]}


@makes("lambda/permission:Permission")
def permission(account: EmulatedAccount, given: ResourceInputs) -> Made:
    function = given.take("function")
    account.client("lambda").add_permission(
        FunctionName=function, StatementId="infra", **given.pascal()
    )
    return "infra", {}


@makes("sqs/queue:Queue")
def queue(account: EmulatedAccount, given: ResourceInputs) -> Made:
    sqs = account.client("sqs")
    attributes = {
        "MessageRetentionPeriod": str(given.take("messageRetentionSeconds")),
        "SqsManagedSseEnabled": str(given.take("sqsManagedSseEnabled")).lower(),
    }
    name = given.take("name")
    url = sqs.create_queue(QueueName=name, Attributes=attributes, tags=given.take("tags"))
    found = sqs.get_queue_attributes(QueueUrl=url["QueueUrl"], AttributeNames=["QueueArn"])
    return url["QueueUrl"], {
        "arn": found["Attributes"]["QueueArn"],
        "name": name,
        "url": url["QueueUrl"],
    }


@makes("scheduler/scheduleGroup:ScheduleGroup")
def schedule_group(account: EmulatedAccount, given: ResourceInputs) -> Made:
    name = given.take("name")
    account.client("scheduler").create_schedule_group(Name=name, Tags=given.tags())
    return name, {"name": name}


@makes("scheduler/schedule:Schedule")
def schedule(account: EmulatedAccount, given: ResourceInputs) -> Made:
    request = given.pascal()
    made = account.client("scheduler").create_schedule(**request)
    return made["ScheduleArn"], {"arn": made["ScheduleArn"]}
