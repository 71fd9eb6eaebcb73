"""``python -m sulina.cli``: the command line where its script is not installed."""

from __future__ import annotations

from sulina.cli import main

if __name__ == "__main__":
    main()
