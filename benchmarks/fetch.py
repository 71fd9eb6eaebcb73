"""Servers that no package of Debian has: where they are, and how they are fetched.

A folder or a program named by an environment variable comes first, then what ``--fetch`` has put
into the folder ``.servers``, which git ignores. Kafka and Pulsar come from Maven Central by
``mvn``, NATS is built by ``go install``; nothing is fetched unless ``--fetch`` asks for it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

SERVERS = Path(__file__).parents[1] / ".servers"
KAFKA_VERSION = "4.3.1"
PULSAR_VERSION = "4.0.8"
FETCH = 'make bench ARGS="--fetch"'
LONGEST = 1800.0

_KAFKA_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>benchmarks</groupId><artifactId>kafka</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId>
      <version>2.25.4</version>
    </dependency>
  </dependencies>
</project>
"""


class CannotFetch(Exception):
    """A server could not be fetched; the message says why."""


@dataclass(frozen=True, slots=True)
class FetchedServer:
    """A server that ``--fetch`` can get."""

    title: str
    variable: str
    """The environment variable that names one that is already there."""
    place: Path
    """Where it is put, and what shows that it is there."""
    tool: str
    """The program that fetches it."""
    remedy: str
    """How to get that program."""
    get: Callable[[Path], None]
    """Puts it into a new folder, which is then renamed. Blocks."""

    def found(self) -> Path | None:
        """The folder or program to use, or None. A variable that names nothing counts as None."""
        named = os.environ.get(self.variable)
        place = Path(named) if named else SERVERS / self.place
        return place.resolve() if place.exists() else None

    def missing(self) -> str:
        """Why it is not measured, and how to get it."""
        if named := os.environ.get(self.variable):
            return f"{self.title} is not measured: {self.variable}={named} does not exist"
        how = f"`{FETCH}` gets it"
        if shutil.which(self.tool) is None:
            how = f"install {self.remedy}, and `{FETCH}` gets it"
        return f"{self.title} is not measured: set {self.variable}, or {how}"

    def fetch(self) -> None:
        """Get it unless it is there. Blocks for minutes; raises CannotFetch."""
        if (SERVERS / self.place).exists():
            return
        if shutil.which(self.tool) is None:
            raise CannotFetch(self.missing())
        SERVERS.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fetching-", dir=SERVERS) as name:
            folder = Path(name) / "new"
            folder.mkdir()
            self.get(folder)
            # Renamed as a whole: an interrupted fetch leaves nothing that looks complete.
            folder.rename(SERVERS / self.place.parts[0])


def _kafka(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "pom.xml").write_text(_KAFKA_POM)
        goal = ("dependency:copy-dependencies", "-DincludeScope=runtime")
        run(("mvn", "-B", "-q", *goal, f"-DoutputDirectory={folder / 'libs'}"), Path(name))


def _pulsar(folder: Path) -> None:
    artifact = f"org.apache.pulsar:pulsar-server-distribution:{PULSAR_VERSION}:tar.gz:bin"
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        goal = ("dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={name}")
        run(("mvn", "-B", "-q", *goal), Path(name))
        with tarfile.open(next(Path(name).glob("*.tar.gz"))) as archive:
            archive.extractall(name, filter="data")
        unpacked = Path(name) / f"apache-pulsar-{PULSAR_VERSION}"
        for each in unpacked.iterdir():
            each.rename(folder / each.name)


def _nats(folder: Path) -> None:
    newest = "github.com/nats-io/nats-server/v2@latest"
    run(("go", "install", newest), folder, {"GOBIN": str(folder)})


def run(command: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    """Run a program that fetches something; blocks. Raises CannotFetch with its output's end."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotFetch(f"{command[0]} failed: {error}") from None
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise CannotFetch(f"{' '.join(command)} failed: {' / '.join(said[-3:])}")


MAVEN = "Maven (`sudo apt-get install maven`)"
KAFKA = FetchedServer("Kafka", "KAFKA_HOME", Path(f"kafka-{KAFKA_VERSION}"), "mvn", MAVEN, _kafka)
PULSAR = FetchedServer(
    "Pulsar", "PULSAR_HOME", Path(f"pulsar-{PULSAR_VERSION}"), "mvn", MAVEN, _pulsar
)
NATS = FetchedServer(
    "The newest NATS",
    "NATS_SERVER",
    Path("nats/nats-server"),
    "go",
    "Go (https://go.dev/dl)",
    _nats,
)
FETCHED = (KAFKA, PULSAR, NATS)
