"""``python -m storage_grpc.container.secret_files FOLDER``: secrets of the environment into files.

``SULINA_FILE_KEY`` becomes ``FOLDER/key.pem``, readable by its owner alone. Container services pass
secrets as environment variables; this is for programs that read them only from files. An existing
file is replaced in one step.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

PREFIX: Final = "SULINA_FILE_"


def write(folder: Path, environment: Mapping[str, str]) -> list[Path]:
    """Write all secrets; returns their files. Raises ``OSError``."""
    written = []
    for name, text in sorted(environment.items()):
        if name.startswith(PREFIX):
            path = folder / f"{name.removeprefix(PREFIX).lower()}.pem"
            part = path.with_suffix(".part")
            part.unlink(missing_ok=True)
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
            written.append(part.replace(path))
    return written


def main() -> int:
    """Write the secrets of this environment; returns the exit code of the process."""
    [folder] = sys.argv[1:]
    try:
        written = write(Path(folder), os.environ)
    except OSError as error:
        sys.stderr.write(f"secrets can't be written to {folder}: {error}\n")
        return 1
    if not written:
        sys.stderr.write(f"no secrets to write: set variables that begin with {PREFIX}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
