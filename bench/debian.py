"""Packages of Debian, unpacked into a folder of their own: nothing is installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.maven import PeerUnavailableError, cache_directory


def fetch_packages(
    name: str,
    packages: Sequence[str],
    what: str,
    prepare: Callable[[Path, Path], None] = lambda tree, target: None,
) -> Path:
    """Return a folder with what the packages hold, fetched unless it is there already.

    `prepare` is called once, with the folder where they were unpacked and the one where they will
    be.

    Raises:
        PeerUnavailableError: they cannot be had here; says that `what` is left out.
    """
    target = cache_directory() / name
    if target.is_dir():
        return target
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise PeerUnavailableError(f"{what} is left out: it is fetched with Debian's apt-get")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Fetched aside and moved at the end, so that a broken fetch is never taken for a whole one.
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        done = subprocess.run(
            ["apt-get", "download", "-q", *packages],
            cwd=work,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise PeerUnavailableError(
                f"{what} is left out: {done.stderr.strip()[-300:]} (apt-get update helps if "
                "there are no lists)"
            )
        tree = Path(work) / "tree"
        for package in sorted(Path(work).glob("*.deb")):
            subprocess.run(["dpkg", "-x", str(package), str(tree)], check=True)
        prepare(tree, target)
        tree.rename(target)
    return target
