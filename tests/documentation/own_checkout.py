"""A checkout in which scripts may install and build: nothing of the real one is written to.

Its environment is its own and knows the packages of the one that runs the tests, so that a script
finds everything installed, as it does when it is called again.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path

from tests.documentation.blocks import ROOT

#: What ours are called where they are installed: they are not lent.
_OURS = ("kafkaesque", "__editable__")
_ENVIRONMENT = Path(sys.prefix)
_PINS = ".pins"
_KAFKAESQUE = '#!/bin/sh\nexec "{python}" -m kafkaesque.cli.app "$@"\n'
#: The state that `ensure_package` of scripts/lib.sh compares: the package is installed.
_INSTALLED = """
. scripts/lib.sh
say "$(pwd) $(state_of pyproject.toml setup.py src/kafkaesque/model/*.p{yx,xd})" > .venv/.package
"""


def lacks_pins(*names: str) -> str:
    """Return what a script would have to install first; empty: nothing."""
    pins = _ENVIRONMENT / _PINS
    found = [each.split()[0] for each in pins.read_text().splitlines()] if pins.exists() else []
    lacking = [each for each in names if each not in found]
    return f"scripts/test has not installed {', '.join(lacking)}" if lacking else ""


def lend_packages(place: Path) -> Path:
    """Make a folder with links to the installed packages, without ours, for PYTHONPATH."""
    place.mkdir()
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if not each.name.startswith(_OURS):
            (place / each.name).symlink_to(each)
    return place


def copy_sources(place: Path) -> Path:
    """Copy what a distribution is built from, the compiled kernel aside."""
    place.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place)
    for name in ("requirements", "packaging"):
        shutil.copytree(ROOT / name, place / name)
    left_out = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
    shutil.copytree(ROOT / "src", place / "src", ignore=left_out)
    return place


def make_checkout(place: Path, copied: Sequence[str] = ()) -> Path:
    """Make a checkout of links to the real one; what scripts write to is `copied`."""
    place.mkdir()
    for each in ROOT.iterdir():
        if each.name in copied:
            left_out = shutil.ignore_patterns("node_modules", "__pycache__")
            shutil.copytree(each, place / each.name, ignore=left_out)
        elif each.name != ".venv":
            (place / each.name).symlink_to(each)
    own = place / ".venv"
    venv.create(own)
    python = own / "bin" / "python"
    (own / "bin" / "kafkaesque").write_text(_KAFKAESQUE.format(python=python))
    (own / "bin" / "kafkaesque").chmod(0o755)
    lent = lend_packages(place / ".lent")
    (packages,) = own.glob("lib/python*/site-packages")
    (packages / "lent.pth").write_text(f"{lent}\n{place / 'src'}\n")
    if (_ENVIRONMENT / _PINS).exists():
        shutil.copy(_ENVIRONMENT / _PINS, own)
    subprocess.run(["bash", "-c", _INSTALLED], cwd=place, check=True)
    return place
