"""What is dear to load is loaded with its first use: a broker without security pays for none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import kafkaesque.access

FOLDER = Path(kafkaesque.access.__file__).parent
DEAR = ("cryptography", "joserfc", "re2", "asyncio", "ssl")


def test_importing_the_room_loads_nothing_dear() -> None:
    modules = [f"kafkaesque.access.{path.stem}" for path in sorted(FOLDER.glob("[a-z]*.py"))]
    assert len(modules) > 30
    program = "import sys\n" + "".join(f"import {each}\n" for each in modules)
    program += f"print([each for each in {DEAR!r} if each in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"
