"""One `pulumi up`: images are built and pushed on the way, functions are packed before."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from infra import artifacts
from infra.artifacts import check_built, digest_of, packed_functions, source_tag
from infra.errors import DeploymentError
from localstack.deployment.inputs import _SECRET, plain
from localstack.deployment.stack_files import ROOT
from tests.infra.graph import Graph


def test_every_image_is_built_for_the_machines_and_pushed_where_they_pull_it(dev: Graph) -> None:
    images = {made.name: made.inputs for made in dev.all("docker-build:index:Image")}
    assert set(images) == {"broker", "storage", "etcd"}
    for name, image in images.items():
        repository = dev.one("ecr/repository:Repository", name).outputs["repositoryUrl"]
        where, _, tag = image["tags"][0].partition(":")
        assert where == repository
        assert re.fullmatch(r"(v3.5.24-)?source-[0-9a-f]{16}", tag)
        version = "v3.5.24" if name == "etcd" else tag
        assert image["buildArgs"] == {"VERSION": version}
        assert tag.startswith(version)
        assert image["platforms"] == ["linux/arm64"]
        assert image["push"] is True
        # Not where this machine has it: another one that deploys must find nothing changed.
        assert not Path(image["context"]["location"]).is_absolute()
        recipe = ROOT / "infra" / image["dockerfile"]["location"]
        assert recipe.is_file()
        assert (ROOT / "infra" / image["context"]["location"]).resolve() in recipe.resolve().parents
        assert image["buildOnPreview"] is False


def test_containers_run_what_was_built_by_its_digest(dev: Graph) -> None:
    built = {made.name: made.outputs["ref"] for made in dev.all("docker-build:index:Image")}
    for definition in dev.all("ecs/taskDefinition:TaskDefinition"):
        own, *beside = dev.containers(definition.name)
        assert own["image"] == built[definition.name.partition("-")[0]]
        assert "@sha256:" in own["image"]
        assert {each["image"] for each in beside} <= {built["storage"]}
    for service in dev.all("ecs/service:Service"):
        assert service.inputs["desiredCount"] == (2 if service.name == "broker" else 1)


def test_repositories_come_before_images_and_those_before_what_runs_them(dev: Graph) -> None:
    order = {(made.kind, made.name): at for at, made in enumerate(dev.resources)}
    for image in ("broker", "storage", "etcd"):
        built = order[("docker-build:index:Image", image)]
        assert order[("aws:ecr/repository:Repository", image)] < built
        for (kind, name), at in order.items():
            if kind == "aws:ecs/taskDefinition:TaskDefinition" and name.startswith(image):
                assert built < at


def test_what_starts_is_awaited(dev: Graph) -> None:
    assert all(made.inputs["waitForSteadyState"] for made in dev.all("ecs/service:Service"))


def test_the_login_to_the_registry_is_kept_secret(dev: Graph) -> None:
    for image in dev.all("docker-build:index:Image"):
        assert _SECRET in image.inputs["registries"]
        [registry] = plain(image.inputs["registries"])
        assert registry["password"] == "login-of-who-deploys"
        rest = {name: value for name, value in image.inputs.items() if name != "registries"}
        assert "login-of-who-deploys" not in json.dumps(rest)


def test_images_that_were_pushed_are_taken_as_they_are(prod: Graph) -> None:
    assert not prod.all("docker-build:index:Image")
    assert prod.container("storage-1")["image"].endswith("/sulina-prod/storage:1.2.3")
    assert prod.container("etcd-1")["image"].endswith("/sulina-prod/etcd:v3.5.24")


def test_without_images_nothing_runs_yet(graph_of: Callable[[str], Graph]) -> None:
    graph = graph_of("public")
    for service in graph.all("ecs/service:Service"):
        assert service.inputs["desiredCount"] == 0
        assert service.inputs["waitForSteadyState"] is False
    assert graph.one("appautoscaling/target:Target", "brokers").inputs["minCapacity"] == 0


def test_what_is_copied_into_images_is_part_of_their_tag() -> None:
    listed = (ROOT / ".dockerignore").read_text().splitlines()
    for line in listed:
        if line.startswith("!"):
            assert line[1:].partition("/")[0] in artifacts._IMAGES, line
    for folder in ("broker_containers", "storage_grpc"):
        recipe = (ROOT / folder / "Dockerfile").read_text()
        for place in re.findall(r"^COPY (?!--)(\S+)", recipe, re.MULTILINE):
            assert place.partition("/")[0] in artifacts._IMAGES, place


def test_the_tag_changes_with_what_is_in_a_file_and_with_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "ROOT", tmp_path)
    file = tmp_path / "part" / "a.py"
    (file.parent / "__pycache__").mkdir(parents=True)
    file.write_text("1")
    before = digest_of(["part"])
    (file.parent / "__pycache__" / "a.pyc").write_text("made by running it")
    os.utime(file, (1, 1))
    assert digest_of(["part"]) == before
    file.write_text("2")
    assert digest_of(["part"]) != before
    assert digest_of(["part"], "x86_64") != digest_of(["part"], "arm64")


def test_a_tag_that_was_pushed_is_not_used_again_for_another_recipe_or_architecture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "ROOT", tmp_path)
    for image in ("broker", "storage", "etcd"):
        recipe = tmp_path / artifacts._DOCKERFILES[image] / "Dockerfile"
        recipe.parent.mkdir(parents=True)
        recipe.write_text("FROM a")
        tag = source_tag(image, "arm64")
        assert source_tag(image, "x86_64") != tag
        recipe.write_text("FROM b")
        assert source_tag(image, "arm64") != tag


@pytest.mark.parametrize(
    ("machine", "architecture"), [("aarch64", "arm64"), ("x86_64", "x86_64"), ("arm64", "arm64")]
)
def test_jobs_must_be_packed_for_the_architecture_that_spark_runs_on(
    tmp_path: Path, machine: str, architecture: str
) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    for name in artifacts.FUNCTIONS:
        (tmp_path / f"{name}.zip").touch()
    (jobs / "manifest.json").write_text(json.dumps({"machine": machine}))
    check_built(str(tmp_path), str(jobs), architecture)
    [other] = {"arm64", "x86_64"} - {architecture}
    said = f"packed for {architecture}, and Spark runs on {other}: pack it with .* {other}`"
    with pytest.raises(DeploymentError, match=said):
        check_built(str(tmp_path), str(jobs), other)


def test_functions_are_packed_when_their_sources_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a packer that only says when it runs: tests/functions has the real one."""
    root, folder = tmp_path / "root", tmp_path / "built"
    (root / "functions").mkdir(parents=True)
    (root / "functions" / "__init__.py").touch()
    folder.mkdir()
    packer = root / "functions" / "package.py"
    packer.write_text(
        "import pathlib, sys\n"
        "with (pathlib.Path(sys.argv[2]) / 'runs').open('a') as file: file.write(sys.argv[4])\n"
    )
    monkeypatch.setattr(artifacts, "ROOT", root)
    monkeypatch.setattr(artifacts, "_PACKED", ("functions",))
    for _ in range(2):
        assert packed_functions("arm64", folder) == str(folder)
    assert (folder / "runs").read_text() == "arm64"
    packed_functions("x86_64", folder)
    assert (folder / "runs").read_text() == "arm64x86_64"
    packer.write_text("import sys\nsys.exit('no network')\n")
    with pytest.raises(
        DeploymentError, match=r"packing the functions failed: no network.*functionsFolder"
    ):
        packed_functions("arm64", folder)
    packer.write_text("raise SystemExit('still not')\n")
    with pytest.raises(DeploymentError, match="still not"):
        packed_functions("arm64", folder)
