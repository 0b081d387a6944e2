"""The program: ``python -m thalweg``, and the command ``thalweg``."""

from __future__ import annotations

import signal
import sys

from ._thalweg import run


def main() -> int:
    """Runs the program with the arguments of this process, and returns its exit status."""
    # Ctrl-C belongs to the program, as if it ran by itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run(["thalweg", *sys.argv[1:]], [sys.executable, "-m", "thalweg"])


if __name__ == "__main__":
    sys.exit(main())
