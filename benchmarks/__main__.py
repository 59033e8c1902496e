"""`python -m benchmarks SUITE`: the same as `python benchmarks/run.py SUITE`."""

from __future__ import annotations

import sys

from benchmarks.run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
