"""``python -m sulina.cli``: the command line without its script."""

from __future__ import annotations

from sulina.cli import main

if __name__ == "__main__":
    main()
