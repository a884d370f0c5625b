"""The distribution has a name of its own: `kafkaesque` belongs to somebody else in the index."""

from __future__ import annotations

import re
import subprocess
import tomllib
import venv
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pip
import pytest

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOLDERS = ("src", "docs", "scripts", "requirements", "examples", "bench", "codegen", "tests")
#: What tells a reader, or a machine, to install the other one.
STRANGERS = re.compile(
    r"(?<![\w-])kafkaesque\[|\b(?:uv|pipx|pip3?)\b[^\n#|`]*\binstall\b[^\n#|`]*\s[\"']?kafkaesque(?![\w./-])"
)


def texts() -> Iterator[tuple[Path, str]]:
    """Yield every text that a newcomer may follow; the changelog tells what was."""
    files = [ROOT / "README.md", *(each for folder in FOLDERS for each in walk(ROOT / folder))]
    for path in files:
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        aside = {"node_modules", "__pycache__"} & set(path.parts) or path.suffix == ".so"
        if path.is_file() and not aside and ".egg-info" not in str(path) and path != Path(__file__):
            yield path


@pytest.mark.parametrize(
    "words",
    [
        "pip install 'kafkaesque[spark]'",
        "python -m pip install kafkaesque",
        "the extra `kafkaesque[spark]`",
        "uv pip install --upgrade kafkaesque",
    ],
)
def test_the_strangers_name_is_found_in_words(words: str) -> None:
    assert STRANGERS.search(words) is not None


def test_nothing_tells_to_install_the_strangers_package() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path, text in texts()
        for match in STRANGERS.finditer(text)
    ]
    assert found == []


def test_every_extra_that_is_named_is_of_this_distribution() -> None:
    name = PROJECT["name"]
    assert name == "kafkaesque-broker"
    named = {
        extra
        for _, text in texts()
        for extra in re.findall(rf"\b{re.escape(name)}\[([\w,]+)\]", text)
    }
    assert named
    assert named <= set(PROJECT["optional-dependencies"])


def test_the_command_and_the_plugin_are_offered_once() -> None:
    offered = [
        (point.group, point.dist.name if point.dist else "")
        for point in metadata.entry_points(name="kafkaesque")
    ]
    assert sorted(offered) == [
        ("console_scripts", "kafkaesque-broker"),
        ("pytest11", "kafkaesque-broker"),
    ]


def test_what_was_installed_under_the_old_name_is_removed(tmp_path: Path) -> None:
    venv.create(tmp_path / ".venv")
    python = tmp_path / ".venv" / "bin" / "python"
    [packages] = (tmp_path / ".venv" / "lib").glob("python*/site-packages")
    # To unpack a pip of its own would take most of this test's time.
    (packages / "pip").symlink_to(Path(pip.__file__).parent)
    old = packages / "kafkaesque-0.1.0.dev0.dist-info"
    old.mkdir()
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: kafkaesque\nVersion: 0.1.0.dev0\n")
    (old / "INSTALLER").write_text("pip\n")
    (old / "RECORD").write_text(
        "../../../bin/kafkaesque,,\n__editable__.kafkaesque-0.1.0.dev0.pth,,\n"
        + "".join(f"{old.name}/{name},,\n" for name in ("METADATA", "INSTALLER", "RECORD"))
    )
    (packages / "__editable__.kafkaesque-0.1.0.dev0.pth").write_text(f"{tmp_path / 'src'}\n")
    (tmp_path / ".venv" / "bin" / "kafkaesque").write_text("#!/bin/sh\n")
    # Beside the sources, where an editable installation puts them on the path.
    egg = tmp_path / "src" / "kafkaesque.egg-info"
    egg.mkdir(parents=True)
    (egg / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: kafkaesque\nVersion: 0.1.0.dev0\n")

    library = ROOT / "scripts" / "lib.sh"
    for _ in range(2):  # the second time there is nothing to remove
        subprocess.run(
            ["bash", "-euc", f". {library}; remove_old_distribution"], cwd=tmp_path, check=True
        )

    words = "from importlib import metadata; print([d.name for d in metadata.distributions()])"
    left = subprocess.run([python, "-c", words], capture_output=True, text=True, check=True).stdout
    assert left == "[]\n"
    assert not (tmp_path / ".venv" / "bin" / "kafkaesque").exists()
