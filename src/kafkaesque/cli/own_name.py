"""How the reader can call this program again: by its name, or by its path."""

import os
import shutil
import sys
from pathlib import Path

NAME = "kafkaesque"


def own_name() -> str:
    """Return the name if the shell finds it, else the path by which this process was called.

    In a checkout whose environment is not activated that is `.venv/bin/kafkaesque`.
    """
    path = Path(sys.argv[0])
    if path.name != NAME or shutil.which(NAME) is not None:
        return NAME
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return os.fspath(path)
