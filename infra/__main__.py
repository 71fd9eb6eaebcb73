"""Where Pulumi starts: reads the stack's configuration, deploys, exports.

Pulumi runs this folder as a program, so the folder that ``infra`` is in has to be made known first.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pulumi

from infra.program import deploy
from infra.stack import stack_settings
from infra.wrong import Wrong


def main() -> None:
    """Deploy the stack that was chosen."""
    try:
        outputs = deploy(stack_settings())
    except Wrong as wrong:
        # Pulumi shows this sentence, and not where it was raised.
        raise pulumi.RunError(str(wrong)) from None
    for name, value in outputs.items():
        pulumi.export(name, value)


main()
