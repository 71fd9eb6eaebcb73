"""The bill of materials says what was installed, and from which files."""

from __future__ import annotations

import json

from requirements.sbom import debian_packages, document, python_packages

REPORT = {
    "install": [
        {
            "metadata": {"name": "Zope.Thing", "version": "2", "license": "A long\ntext"},
            "download_info": {"archive_info": {"hashes": {"sha256": "ab" * 32}}},
        },
        {
            "metadata": {"name": "attrs", "version": "26.1.0", "license_expression": "MIT"},
            "download_info": {},
        },
    ]
}
STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Version: 1:2.36-9+deb12u10
Description: the C library
 of everybody

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1
"""


def test_packages_of_python_have_normal_names_and_the_hash_of_their_file() -> None:
    attrs, thing = python_packages(REPORT)
    assert attrs["purl"] == "pkg:pypi/attrs@26.1.0"
    assert attrs["licenses"] == [{"expression": "MIT"}]
    assert thing["name"] == "zope-thing"
    assert thing["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]
    assert "licenses" not in thing


def test_packages_of_debian_are_those_that_are_installed() -> None:
    [libc] = debian_packages(STATUS)
    assert libc["purl"] == "pkg:deb/debian/libc6@1%3A2.36-9%2Bdeb12u10?arch=amd64"


def test_the_document_is_the_same_for_the_same_input() -> None:
    def made() -> str:
        return json.dumps(document("x", "1", python_packages(REPORT) + debian_packages(STATUS)))

    assert made() == made()
    found = json.loads(made())
    assert found["dependencies"][0]["dependsOn"] == [
        component["bom-ref"] for component in found["components"]
    ]
