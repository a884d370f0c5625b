"""What the scripts install: nothing that a newcomer would take for a mistake, nothing left out."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LIBRARY = ROOT / "scripts" / "lib.sh"
SETUP = "from setuptools import setup\nsetup(name='legacy', version='1', py_modules=['legacy'])\n"


def make_environment(checkout: Path, *packages: str) -> Path:
    """Make a .venv with these packages of ours, which takes no time, and return its Python."""
    venv.create(checkout / ".venv")
    [place] = (checkout / ".venv" / "lib").glob("python*/site-packages")
    for name in packages:
        found = find_spec(name)
        assert found is not None
        assert found.origin is not None
        folder = Path(found.origin).parent
        (place / name).symlink_to(folder)
        for about in folder.parent.glob(f"{name}-*.dist-info"):
            (place / about.name).symlink_to(about)
    return checkout / ".venv" / "bin" / "python"


def make_source_package(folder: Path) -> str:
    """Make a source distribution without a pyproject.toml, as pyspark's is; return its pin."""
    source = folder / "legacy-1"
    source.mkdir()
    (source / "setup.py").write_text(SETUP)
    (source / "legacy.py").write_text("")
    (source / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: legacy\nVersion: 1\n")
    archive = folder / "legacy-1.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(source, "legacy-1")
    return f"legacy==1 --hash=sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}\n"


@pytest.mark.parametrize("name", ["spark", "quickstart"])
def test_what_is_built_from_source_is_built_without_a_warning(tmp_path: Path, name: str) -> None:
    python = make_environment(tmp_path, "pip", "setuptools", "_distutils_hack")
    (tmp_path / "packages").mkdir()
    (tmp_path / "requirements").mkdir()
    pin = make_source_package(tmp_path / "packages")
    (tmp_path / "requirements" / f"{name}.txt").write_text(pin)
    environment = {
        **os.environ,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "packages"),
        "PIP_NO_CACHE_DIR": "1",
    }
    done = subprocess.run(
        ["bash", "-euc", f". {LIBRARY}; ensure_pins {name}"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    subprocess.run([python, "-c", "import legacy"], check=True)


def missing_packages(purpose: str, **environment: str) -> list[str]:
    words = f". {LIBRARY}; missing_packages {sys.executable} {purpose}"
    done = subprocess.run(
        ["bash", "-euc", words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_the_benchmarks_ask_for_what_their_load_is_compiled_with(tmp_path: Path) -> None:
    header = tmp_path / "librdkafka" / "rdkafka.h"
    header.parent.mkdir()
    header.write_text("")
    assert "librdkafka-dev" not in missing_packages("bench", C_INCLUDE_PATH=str(tmp_path))
    header.write_text("#error none\n")
    assert "librdkafka-dev" in missing_packages("bench", C_INCLUDE_PATH=str(tmp_path))
    assert "librdkafka-dev" not in missing_packages("quickstart", C_INCLUDE_PATH=str(tmp_path))
