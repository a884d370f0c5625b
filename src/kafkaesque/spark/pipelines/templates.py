"""The projects that come with Kafkaesque, and making a copy of one."""

from __future__ import annotations

import difflib
import json
import re
import shutil
from pathlib import Path

from kafkaesque.spark.pipelines.errors import WrongProject

SPEC_NAME = "spark-pipeline.yml"
#: Where the runs of a project keep what they keep; nothing of it is to be under version control.
STATE_FOLDER = "storage"
DEFAULT = "blank"
_FOLDER = Path(__file__).parent.parent / "templates"
_CACHES = ("__pycache__", "*.pyc")
#: What Java escapes in a URI's path.
_ESCAPED = re.compile(r'[\s\x00-\x1f\x7f"#%<>?\[\\\]^`{|}]')


def template_names() -> list[str]:
    """Return the names of all templates."""
    return sorted(each.parent.name for each in _FOLDER.glob(f"*/{SPEC_NAME}"))


def check_storage(path: str) -> None:
    """Refuse a path that Spark's declarative pipelines would mistake.

    They make a URI of it and take that for a path: the checkpoints of `my project` would be kept in
    `my%20project`, outside of the project, where continuous runs have none, and a copy neither.

    Raises:
        WrongProject: it has characters that are escaped in URIs.
    """
    found = _ESCAPED.search(path)
    if found is not None:
        raise WrongProject(
            f"there is {found[0]!r} in the path {path}: Spark would keep checkpoints elsewhere",
            'a directory whose path has neither blanks nor any of "#%<>?[]\\^`{|}',
        )


def _call_by_folder(folder: Path) -> None:
    """Give a project that begins with nothing its directory's name."""
    spec = folder / SPEC_NAME
    line = f"name: {json.dumps(folder.absolute().name)}"
    spec.write_text(spec.read_text("utf-8").replace(f"name: {DEFAULT}", line, 1), "utf-8")


def copy_template(name: str, folder: Path) -> list[Path]:
    """Make `folder` a project of its own, and return its files.

    Raises:
        WrongProject: there is no such template, something is in the folder, or runs could keep
            nothing there.
    """
    names = template_names()
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"--template {near[0]}" if near else f"one of {', '.join(names)}"
        raise WrongProject(f"there is no template {name!r}", hint)
    check_storage(str((folder / STATE_FOLDER).absolute()))
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise WrongProject(
                f"{folder} is not empty: a project is made in a directory that is empty or new"
            )
        shutil.copytree(
            _FOLDER / name,
            folder,
            dirs_exist_ok=True,
            copy_function=shutil.copyfile,
            ignore=shutil.ignore_patterns(*_CACHES),
        )
        if name == DEFAULT:
            _call_by_folder(folder)
        (folder / ".gitignore").write_text(f"{STATE_FOLDER}/\n", "utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise WrongProject(f"cannot write to {folder}: {reason}") from None
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
