"""``python -m monitoring`` writes ``monitoring/dashboards/*.json`` from ``pages/``."""

from __future__ import annotations

import json
from pathlib import Path

from monitoring.grafana import to_json
from monitoring.pages import DASHBOARDS

FOLDER = Path(__file__).with_name("dashboards")


def files() -> dict[Path, str]:
    """The text of each dashboard's file."""
    return {
        FOLDER / f"{each.uid.removeprefix('sulina-')}.json": json.dumps(to_json(each), indent=1)
        + "\n"
        for each in DASHBOARDS
    }


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for path, text in files().items():
        path.write_text(text)
        print(path)


if __name__ == "__main__":
    main()
