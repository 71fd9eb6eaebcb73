"""The archives: the same bytes each time, whole, and without what a function does not need."""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

from functions.package import FUNCTIONS, archive, contents, install, lock_of
from tests.support.fixtures import made_once

_HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


pytestmark = pytest.mark.timeout(600)  # pip fetches what it has not kept

ROOT = Path(__file__).parents[2]
NAME = "analytics"
"""The one that needs most."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For this machine's Python, so that it can be loaded here."""
    machine = platform.machine().replace("aarch64", "arm64")
    return made_once(tmp_path_factory, "functions", lambda folder: install(folder, machine, _HERE))


@pytest.fixture(scope="module")
def packed_function(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return archive(tmp_path_factory.mktemp("functions"), NAME, installed)


def link(name: Path, to: Path) -> None:
    """Not symbolic: libraries look for others next to where they really are."""
    name.parent.mkdir(parents=True, exist_ok=True)
    try:
        name.hardlink_to(to)
    except OSError:  # on another disk
        shutil.copyfile(to, name)


def test_what_catalog_loads_is_among_what_is_packed_of_its_packages(tmp_path: Path) -> None:
    """Without pip, which would fetch 100 MB: the packages of this environment are the same."""
    lock = (ROOT / f"requirements/{lock_of('catalog')}.lock").read_text()
    for name in set(re.findall(r"^([\w-]+)==", lock, re.MULTILINE)):
        for file in distribution(name).files or ():
            if ".." not in file.parts:
                link(tmp_path / "packages" / file, Path(str(file.locate())))
    for packed, path in contents("catalog", tmp_path).items():
        link(tmp_path / "unpacked" / packed, path)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'unpacked')!r})\n"
        "import functions.catalog.handler, pyiceberg.catalog.glue, pyiceberg.io.pyarrow\n"
        "from pyarrow.fs import S3FileSystem\n"
        "print(S3FileSystem.__name__)"
    )
    command = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "S3FileSystem", done.stderr


def test_every_folder_with_a_handler_is_packed() -> None:
    found = sorted(
        path.parent.name for path in (Path(__file__).parents[2] / "functions").glob("*/handler.py")
    )
    assert list(FUNCTIONS) == found


def test_a_function_is_loaded_from_its_archive_alone(packed_function: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(packed_function) as packed:
        packed.extractall(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import functions.{NAME}.handler as h;"
        " import boto3; boto3.client('s3', region_name='us-east-1'); print(h.handler.__name__)"
    )
    # Without the packages of this environment, and without its settings.
    command = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "handler", done.stderr


def test_the_same_code_gives_the_same_bytes_whenever_it_was_installed(
    installed: Path, packed_function: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "installed"
    shutil.copytree(installed, copy, copy_function=shutil.copy)  # without the times
    again = archive(tmp_path, NAME, copy)
    assert again.read_bytes() == packed_function.read_bytes()


def test_an_archive_has_its_function_and_no_other_and_says_what_is_in_it(
    packed_function: Path,
) -> None:
    assert packed_function.stat().st_size < 8 << 20
    with zipfile.ZipFile(packed_function) as packed:
        names = packed.namelist()
        bill = json.loads(packed.read("sbom.json"))
    folders = {each.split("/")[1] for each in names if each.startswith("functions/")}
    assert folders == {"__init__.py", "shared", NAME}
    assert not any(each.startswith("broker_containers/") for each in names)
    assert {"boto3", "crc32c", "protobuf"} <= {each["name"] for each in bill["components"]}
