"""What the deployment tells the parts, given to the parts themselves: they must understand it."""

from __future__ import annotations

from pathlib import Path

from broker_containers.broker.settings import PolicySettings
from broker_containers.commands.broker_options import parse_policies
from broker_containers.commands.broker_run import broker_run
from broker_containers.container import command_line
from infra.cluster.brokers import broker_environment
from infra.config.settings import StackSettings
from infra.lake.buckets import ICEBERG, LEDGERS
from localstack.deployment.stack_files import ROOT
from storage_grpc.service.settings import load
from sulina.cli.settings import CliSettings
from sulina.lake.layout import object_key
from sulina.metadata.etcd import EtcdSettings
from sulina.names import TopicName
from sulina.runtime.tls_files import TlsFiles
from sulina.tables.tables import FOLDER
from tests.infra.graph import Graph

MEMBER_TLS = TlsFiles(
    *(Path(f"/run/sulina/{name}.pem") for name in ("authorities", "certificate", "key"))
)


def test_a_storage_node_understands_its_environment(prod: Graph) -> None:
    for number in (1, 2, 3):
        settings = load({}, prod.environment(f"storage-{number}"))
        assert settings.id == f"storage-{number}"
        assert settings.port == 6660
        assert str(settings.data).startswith("/var/lib/sulina/")
        assert settings.tier.startswith("s3://sulina-prod-lake-")
        assert settings.tls_clients == "certificate"
        assert settings.tls == MEMBER_TLS


def test_a_broker_understands_its_environment(prod: Graph) -> None:
    environment = prod.environment("broker")
    arguments = command_line({**environment, "SULINA_BROKER_HOST": "127.0.0.1"}, [])
    assert arguments[:2] == ["broker", "run"]
    context = broker_run.make_context("run", arguments[2:], obj=CliSettings())
    assert [each.partition("/")[2] for each in context.params["storage_nodes"]] == [
        f"eu-central-1{letter}" for letter in "abc"
    ]
    etcd = EtcdSettings.parse(context.params["etcd"], tls=TlsFiles())
    assert [(each.host, each.port) for each in etcd.endpoints] == [
        (f"etcd-{number}.prod.sulina.internal", 2379) for number in (1, 2, 3)
    ]
    assert context.params["proxy"] == prod.outputs["url"]
    assert not context.params["policy"]
    secrets = {each["name"] for each in prod.container("broker")["secrets"]}
    files = {
        f"SULINA_BROKER_{whom}_{part}"
        for whom in ("ETCD", "STORAGE")
        for part in ("CA", "CERT", "KEY")
    }
    files |= {f"SULINA_BROKER_{each}" for each in ("PEER_CA", "TLS_CERT", "TLS_KEY")}
    assert secrets == {"SULINA_ROOT_TOKEN", *files}
    told = {**environment, "SULINA_BROKER_HOST": "127.0.0.1"} | dict.fromkeys(files, "a.pem")
    assert set(command_line(told, [])) >= {"--etcd-ca", "--etcd-cert", "--storage-key"}


def test_brokers_understand_the_policies_of_a_stack() -> None:
    given = "retention_ms=7d, delete_consumed=true,retention_bytes=10GB"
    settings = StackSettings.parse("prod", {"policies": given})
    environment = broker_environment(settings, "b", "http://etcd:2379", "a/z=a:1")
    arguments = command_line({**environment, "SULINA_BROKER_HOST": "127.0.0.1"}, [])
    context = broker_run.make_context("run", arguments[2:], obj=CliSettings())
    found = parse_policies(context.params["policy"])
    assert found == PolicySettings(
        retention_ms=604_800_000, delete_consumed=True, retention_bytes=10**10
    )


def test_a_broker_finds_its_zone_by_its_address(prod: Graph) -> None:
    for subnet in prod.all("ec2/subnet:Subnet"):
        if subnet.name.startswith("work-"):
            address = subnet.inputs["cidrBlock"].replace(".0/20", ".77")
            environment = prod.environment("broker") | {"SULINA_BROKER_HOST": address}
            command = command_line(environment, [])
            zone = command[command.index("--zone") + 1]
            assert zone == subnet.inputs["availabilityZone"]


def test_health_of_a_storage_node_is_asked_by_a_command_that_its_image_has(prod: Graph) -> None:
    command = prod.container("storage-1")["healthCheck"]["command"]
    assert command[:3] == ["CMD", "python", "-m"]
    module = Path(*command[3].split(".")).with_suffix(".py")
    assert (ROOT / module).is_file()
    assert command[3] in (ROOT / "storage_grpc" / "Dockerfile").read_text()


def test_images_run_as_the_user_that_volumes_belong_to(prod: Graph) -> None:
    user = prod.container("storage-1")["user"]
    for folder in ("storage_grpc", "broker_containers"):
        assert f"USER {user}" in (ROOT / folder / "Dockerfile").read_text()
    owner = user.partition(":")[0]
    script = prod.one("ec2/instance:Instance", "storage-1").inputs["userData"]
    assert f"chown {owner}:{owner} /var/lib/sulina/data" in script


def test_objects_and_the_metadata_of_tables_are_where_roles_may_use_them() -> None:
    assert object_key(TopicName.parse("/default/orders"), 5, 7).startswith(LEDGERS)
    assert f"{FOLDER}/" == ICEBERG
