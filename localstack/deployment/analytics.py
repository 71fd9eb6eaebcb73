"""Glue, Athena, EMR Serverless."""

from __future__ import annotations

from localstack.deployment.account import EmulatedAccount, Made, makes
from localstack.deployment.inputs import ResourceInputs, pascal

_KNOWN_RELEASE = "emr-7.0.0"
"""moto takes no label that it does not know; AWS's model of the request has no such list."""


@makes("glue/catalogDatabase:CatalogDatabase")
def database(account: EmulatedAccount, given: ResourceInputs) -> Made:
    tags = given.may("tags")
    request = given.pascal()
    account.client("glue").create_database(DatabaseInput=request, Tags=tags)
    return request["Name"], {"name": request["Name"]}


@makes("athena/workgroup:Workgroup")
def workgroup(account: EmulatedAccount, given: ResourceInputs) -> Made:
    given.drop("forceDestroy")
    name, tags = given.take("name"), given.tags()
    config = pascal(given.take("configuration"))
    config["EnforceWorkGroupConfiguration"] = config.pop("EnforceWorkgroupConfiguration")
    config["PublishCloudWatchMetricsEnabled"] = config.pop("PublishCloudwatchMetricsEnabled")
    encryption = config["ResultConfiguration"]["EncryptionConfiguration"]
    encryption["KmsKey"] = encryption.pop("KmsKeyArn")
    account.client("athena").create_work_group(
        Name=name, Description=given.take("description"), Configuration=config, Tags=tags
    )
    return name, {"name": name}


@makes("emrserverless/application:Application")
def application(account: EmulatedAccount, given: ResourceInputs) -> Made:
    tags, kind = given.take("tags"), given.take("type")
    request = {**given.rest(), "type": kind, "tags": tags, "clientToken": "infra"}
    account.check("emr-serverless", "CreateApplication", request)
    known = {**request, "releaseLabel": _KNOWN_RELEASE}
    made = account.client("emr-serverless").create_application(**known)
    return made["applicationId"], {"arn": made["arn"]}
