"""What systems that run on Java share."""

from __future__ import annotations

from benchmarks.systems.base import find_program, output_of

REMEDY = "`sudo apt-get install openjdk-17-jre-headless` to compare"


def java_missing(title: str, least: int = 17) -> str | None:
    """Why Java can't run a system here, as a sentence with the remedy; None if it can. Blocks."""
    java = find_program("java")
    if java is None:
        return f"{title} is not measured: Java {least} or newer is not installed: {REMEDY}"
    first = output_of([java, "-version"]).partition("\n")[0]
    number = first.partition('"')[2].split(".")[0].strip('"')
    if not number.isdigit() or int(number) < least:
        return f"{title} is not measured: it needs Java {least} or newer, not {first}: {REMEDY}"
    return None
