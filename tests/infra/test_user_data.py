"""What a machine with a volume does at boot, with stand-ins for the commands that touch disks."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from infra.cluster.user_data import CERTIFICATES, MOUNT
from tests.infra.graph import Graph


class BootedMachine:
    """Runs the script of a member with its paths below a folder; stand-ins write down calls."""

    def __init__(
        self, folder: Path, script: str, serial: str, filesystem: str, waits: int = 0
    ) -> None:
        """The volume is there after ``waits`` pauses."""
        self._folder = folder
        self.calls = folder / "calls"
        for command in ("mkfs.xfs", "mount", "chown", "systemctl", "systemd-tmpfiles"):
            self._stand_in(command, f'echo {command} "$@" >> {self.calls}')
        paused = folder / "paused"
        paused.touch()
        disks = f"echo /dev/nvme1n1 {serial}"
        self._stand_in(
            "lsblk",
            f"echo /dev/nvme0n1 vol0root; test $(wc -l < {paused}) -lt {waits} || {disks}",
        )
        self._stand_in("blkid", f'case "$*" in *UUID*) echo 1234;; *) echo "{filesystem}";; esac')
        self._stand_in("sleep", f"echo >> {paused}")
        for name in ("ecs", "tmpfiles.d"):
            (folder / "etc" / name).mkdir(parents=True)
        for real, here in (("/etc/", f"{folder}/etc/"), (MOUNT, f"{folder}/disk")):
            script = script.replace(real, here)
        self.script = script

    def boot(self) -> subprocess.CompletedProcess[str]:
        """Run it."""
        bash = shutil.which("bash")
        assert bash is not None
        path = f"{self._folder}/bin:{os.environ['PATH']}"
        return subprocess.run(
            [bash, "-c", self.script],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    def _stand_in(self, command: str, body: str) -> None:
        path = self._folder / "bin" / command
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)


def script_of(graph: Graph) -> tuple[str, str]:
    serial = graph.one("ebs/volume:Volume", "storage-1").id.replace("-", "")
    return graph.one("ec2/instance:Instance", "storage-1").inputs["userData"], serial


@pytest.mark.parametrize(("filesystem", "formatted"), [("", True), ("xfs", False)])
def test_a_volume_is_formatted_only_if_it_is_blank(
    prod: Graph, tmp_path: Path, filesystem: str, formatted: bool
) -> None:
    script, serial = script_of(prod)
    machine = BootedMachine(tmp_path, script, serial, filesystem)
    done = machine.boot()
    assert done.returncode == 0, done.stderr
    calls = machine.calls.read_text()
    assert ("mkfs.xfs /dev/nvme1n1" in calls) is formatted
    assert f"mount {tmp_path}/disk" in calls
    assert f"chown 10001:10001 {tmp_path}/disk/data" in calls


def test_after_a_restart_the_volume_is_found_by_its_own_name_and_ecs_waits_for_it(
    prod: Graph, tmp_path: Path
) -> None:
    script, serial = script_of(prod)
    BootedMachine(tmp_path, script, serial, "xfs").boot()
    line = (tmp_path / "etc" / "fstab").read_text()
    assert line.startswith(f"UUID=1234 {tmp_path}/disk xfs ")
    assert "x-systemd.required-by=ecs.service" in line
    told = (tmp_path / "etc" / "ecs" / "ecs.config").read_text()
    assert "ECS_CLUSTER=sulina-prod-cluster" in told
    assert '{"sulina.member": "storage-1"}' in told


def test_certificates_have_a_folder_in_memory_that_every_start_of_the_machine_makes(
    prod: Graph, tmp_path: Path
) -> None:
    script, serial = script_of(prod)
    machine = BootedMachine(tmp_path, script, serial, "xfs")
    machine.boot()
    rules = tmp_path / "etc" / "tmpfiles.d" / "sulina.conf"
    assert rules.read_text() == f"d {CERTIFICATES} 0700 10001 10001 -\n"
    assert f"systemd-tmpfiles --create {rules}" in machine.calls.read_text()


def test_a_machine_waits_for_its_volume_because_its_script_runs_only_once(
    prod: Graph, tmp_path: Path
) -> None:
    script, serial = script_of(prod)
    assert "seq" not in script  # it waits as long as `pulumi up` was interrupted
    done = BootedMachine(tmp_path, script, serial, "xfs", waits=3).boot()
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"waiting for the volume {serial}") == 3
    assert (tmp_path / "etc" / "ecs" / "ecs.config").exists()
