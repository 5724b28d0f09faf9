"""``python -m rankfold`` is the command ``rankfold``."""

from ._command import main

main()
