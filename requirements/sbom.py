"""Writes what an image or a package consists of: a software bill of materials (CycloneDX 1.6).

    pip install --report report.json --require-hashes --requirement requirements/broker.lock
    python requirements/sbom.py --name sulina-broker --version 0.1.0 --report report.json

Python packages come from pip's own report, each with the hash of the very file that was installed,
which the lock file allowed. Packages of Debian come from ``--dpkg``, if it is there. The same
input gives the same bytes.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from email.parser import HeaderParser
from pathlib import Path
from typing import Any
from urllib.parse import quote


def main() -> int:
    """Write the document to standard output; returns the exit code of the process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--name", required=True, help="of the image or package")
    parser.add_argument("--version", required=True)
    parser.add_argument("--report", type=Path, required=True, help="what pip wrote")
    parser.add_argument("--dpkg", type=Path, help="Debian's list, /var/lib/dpkg/status")
    given = parser.parse_args()
    components = python_packages(json.loads(given.report.read_text(encoding="utf-8")))
    if given.dpkg is not None and given.dpkg.exists():
        components += debian_packages(given.dpkg.read_text(encoding="utf-8"))
    json.dump(document(given.name, given.version, components), sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 0


def document(name: str, version: str, components: list[dict[str, Any]]) -> dict[str, Any]:
    """The whole document about one thing."""
    own = f"pkg:generic/{name}@{version}"
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": name,
                "version": version,
                "purl": own,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
        "dependencies": [{"ref": own, "dependsOn": [each["bom-ref"] for each in components]}],
    }


def python_packages(report: dict[str, Any]) -> list[dict[str, Any]]:
    """What pip installed, by name."""
    found = []
    for each in report["install"]:
        about, archive = each["metadata"], each["download_info"].get("archive_info", {})
        name = re.sub(r"[-_.]+", "-", about["name"]).lower()
        purl = f"pkg:pypi/{name}@{about['version']}"
        component: dict[str, Any] = {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": about["version"],
            "purl": purl,
        }
        if sha256 := archive.get("hashes", {}).get("sha256"):
            component["hashes"] = [{"alg": "SHA-256", "content": sha256}]
        if expression := about.get("license_expression"):
            component["licenses"] = [{"expression": expression}]
        elif about.get("license") and "\n" not in about["license"]:
            component["licenses"] = [{"license": {"name": about["license"]}}]
        found.append(component)
    return sorted(found, key=lambda component: str(component["name"]))


def debian_packages(status: str) -> list[dict[str, Any]]:
    """What is installed by Debian's list, by name."""
    found = []
    for paragraph in status.strip().split("\n\n"):
        fields = HeaderParser().parsestr(paragraph.strip())
        if not str(fields["Status"]).endswith(" installed"):
            continue
        name, version = str(fields["Package"]), str(fields["Version"])
        purl = f"pkg:deb/debian/{name}@{quote(version, safe='')}?arch={fields['Architecture']}"
        found.append(
            {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
        )
    return sorted(found, key=lambda component: component["bom-ref"])


if __name__ == "__main__":
    sys.exit(main())
