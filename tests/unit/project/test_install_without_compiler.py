"""Where nothing compiles, the package still installs, and its pure-Python kernel does the work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

# -790332482, as 32 unsigned bits, is the murmur2 of this key in Kafka's own tests.
TRY_IT = """
import sys
sys.path.insert(0, sys.argv[1])
import kafkaesque.model.kernel as kernel
assert kernel.__file__.startswith(sys.argv[1]), kernel.__file__
print(kernel.name, kernel.active.murmur2(b"foobar"))
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the build reads, without anything that was compiled before."""
    checkout = tmp_path / "checkout"
    shutil.copytree(
        ROOT / "src", checkout / "src", ignore=shutil.ignore_patterns("*.so", "*.c", "*.egg-info")
    )
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    return checkout


@pytest.mark.extended
def test_installs_and_works_without_a_compiler(checkout: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    install += ["--no-build-isolation", "--target", str(target), str(checkout)]
    # A compiler that always fails stands for one that is not there.
    environment = {**os.environ, "CC": "/bin/false", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run(install, env=environment, timeout=240, check=True)
    assert (target / "kafkaesque" / "py.typed").exists()
    assert list(target.rglob("*.so")) == []
    # Node is not needed either: what the console serves is part of the package.
    static = Path("kafkaesque/console/static")
    shipped = {path.relative_to(target / static) for path in (target / static).rglob("*.gz")}
    assert shipped == {
        path.relative_to(ROOT / "src" / static) for path in (ROOT / "src" / static).rglob("*.gz")
    }
    assert Path("index.html.gz") in shipped

    tried = subprocess.run(
        [sys.executable, "-c", TRY_IT, str(target)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    assert tried.stdout.split() == ["python", str(2**32 - 790332482)]
