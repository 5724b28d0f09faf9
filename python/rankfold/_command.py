"""The command ``rankfold``, which the wheel installs."""

from __future__ import annotations

import sys

from . import _rankfold


def main() -> None:
    """Run the command with the arguments of this process."""
    sys.exit(_rankfold.command(["rankfold", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
