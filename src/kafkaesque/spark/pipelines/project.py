"""A project: its spec, read and checked before anything is started."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkaesque.spark.options_file import OPTIONS_FILE
from kafkaesque.spark.pipelines.errors import WrongProject
from kafkaesque.spark.pipelines.templates import STATE_FOLDER, check_storage

SPEC_NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")
BOOTSTRAP_SETTING = "kafkaesque.bootstrap.servers"
#: A file of the connector's options, passwords among them.
FILE_SETTING = "kafkaesque.options.file"
#: How connections to those brokers are secured; the connector's options have kafka. for kafkaesque.
_SECURITY_SETTINGS = ("kafkaesque.security.", "kafkaesque.ssl.", "kafkaesque.sasl.")
_VARIABLE = re.compile(r"\$\{env:([A-Za-z_]\w*)(?::-([^}]*))?\}")
_FIELDS = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
_SUFFIXES = (".py", ".sql")
#: Spark's own names: any of them may be set, Spark decides what it takes.
_SPARK = "spark."
_CATALOG, _DATABASE = "spark_catalog", "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """What is to be run, as the spec and the command line have it."""

    folder: Path
    spec_path: Path
    name: str
    #: A URI: checkpoints are under it.
    storage: str
    catalog: str | None
    database: str | None
    settings: Mapping[str, str]
    #: The files with the flows, in the order in which they are read.
    sources: tuple[Path, ...]

    @property
    def state_folder(self) -> Path:
        """Where the catalog, tables, logs and records of the runs are kept."""
        return self.folder / STATE_FOLDER

    def full_name(self, name: str) -> tuple[str, ...]:
        """Return a table's catalog, database and name, as SQL compares them."""
        default = [self.catalog or _CATALOG, self.database or _DATABASE]
        parts = name.lower().split(".")
        return (*(part.lower() for part in default[: max(0, 3 - len(parts))]), *parts)

    @property
    def bootstrap_servers(self) -> str | None:
        return self.settings.get(BOOTSTRAP_SETTING)

    @property
    def security_options(self) -> dict[str, str]:
        """How to speak with those brokers, as options of the connector."""
        found = {
            f"kafka.{name.removeprefix('kafkaesque.')}": value
            for name, value in self.settings.items()
            if name.startswith(_SECURITY_SETTINGS)
        }
        path = self.settings.get(FILE_SETTING)
        return {**found, OPTIONS_FILE: path} if path else found


def find_spec(place: Path) -> Path:
    """Return the spec in a project's directory; `place` may be the spec itself.

    Raises:
        WrongProject: there is none, or two.
    """
    if place.is_file():
        return place.resolve()
    found = [place / name for name in SPEC_NAMES if (place / name).is_file()]
    if not found:
        raise WrongProject(
            f"{place} is no project: there is no {SPEC_NAMES[0]} in it",
            "kafkaesque pipeline init DIR makes one",
        )
    if len(found) > 1:
        raise WrongProject(f"{place} has both {' and '.join(SPEC_NAMES)}: remove one")
    return found[0].resolve()


def load_project(place: Path, overrides: Mapping[str, str] | None = None) -> Project:
    """Read a project; `overrides` are settings of this run.

    Raises:
        WrongProject: the sentence says what is wrong, and where.
    """
    spec_path = find_spec(place)
    spec = _read_spec(spec_path)
    folder = spec_path.parent
    settings = _configuration(spec_path, spec.get("configuration") or {})
    _check_overrides(spec_path, settings, overrides or {})
    return Project(
        folder=folder,
        spec_path=spec_path,
        name=_text(spec_path, spec, "name"),
        storage=_storage_uri(folder, _text(spec_path, spec, "storage")),
        catalog=spec.get("catalog"),
        database=spec.get("database", spec.get("schema")),
        settings=_with_environment(spec_path, {**settings, **(overrides or {})}),
        sources=tuple(_sources(spec_path, spec.get("libraries") or [])),
    )


def _read_spec(path: Path) -> dict[str, Any]:
    import yaml

    try:
        spec = yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise WrongProject(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    except OSError as error:
        raise WrongProject(f"cannot read {path}: {(error.strerror or '').lower()}") from None
    if not isinstance(spec, dict):
        raise WrongProject(f"{path} has no fields: at least name and storage are needed")
    for field in spec:
        if field not in _FIELDS:
            raise WrongProject(f"{path}: there is no field {field!r}{_nearest(field, _FIELDS)}")
    return spec


def _text(path: Path, spec: Mapping[str, Any], field: str) -> str:
    found = spec.get(field)
    if not isinstance(found, str) or not found:
        raise WrongProject(f"{path}: the field {field} is needed, as a text")
    return found


def _configuration(path: Path, found: object) -> dict[str, str]:
    if not isinstance(found, dict):
        raise WrongProject(f"{path}: configuration is not a list of names with their values")
    for name, value in found.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise WrongProject(
                f"{path}: configuration: {name} has to be a text, and {value!r} is none",
                f'{name}: "{str(value).lower() if isinstance(value, bool) else value}"',
            )
    return dict(found)


def _check_overrides(path: Path, settings: Mapping[str, str], overrides: Mapping[str, str]) -> None:
    for name in overrides:
        if name not in settings and not name.startswith(_SPARK):
            raise WrongProject(
                f"there is no setting {name} in {path}{_nearest(name, settings)}",
                "the settings of a project are listed under configuration: in its spec",
            )


def _with_environment(path: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with what the environment has: secrets need not stand in a file.

    Spark does so with its own.
    """

    def looked_up(found: re.Match[str]) -> str:
        name, default = found.groups()
        value = os.environ.get(name)
        if default is not None:
            return value or default
        if value is None:
            raise WrongProject(
                f"{path}: configuration: there is no environment variable {name}",
                f"export {name}=…",
            )
        return value

    return {
        name: value if name.startswith(_SPARK) else _VARIABLE.sub(looked_up, value)
        for name, value in settings.items()
    }


def _storage_uri(folder: Path, storage: str) -> str:
    """Return the storage as a URI; a path is relative to the project."""
    found = storage if ":/" in storage else f"file://{(folder / storage).resolve()}"
    check_storage(found.partition(":")[2])
    return found


def _sources(path: Path, libraries: object) -> list[Path]:
    if not isinstance(libraries, list):
        raise WrongProject(f"{path}: libraries is not a list")
    found: dict[Path, None] = {}
    for entry in libraries:
        try:
            pattern = entry["glob"]["include"]
        except (TypeError, KeyError):
            raise WrongProject(f"{path}: libraries: {entry!r} is not - glob: include: …") from None
        for file in _matching(path, str(pattern)):
            found[file] = None
    if not found:
        raise WrongProject(
            f"{path}: no transformations: no file matches what libraries: lists",
            "- glob: include: transformations/**",
        )
    return list(found)


def _matching(path: Path, pattern: str) -> list[Path]:
    """Return the files of a pattern: a file's name, or a directory with /** after it."""
    stem = pattern.removesuffix("/**")
    if any(letter in stem for letter in "*?["):
        raise WrongProject(
            f"{path}: libraries: {pattern!r} is neither a file nor a directory with /** after it"
        )
    matching = path.parent.glob(pattern if stem == pattern else f"{pattern}/*")
    files = [
        file
        for file in sorted(matching)
        if file.is_file() and "__pycache__" not in file.parts and not file.name.startswith(".")
    ]
    for file in files:
        if file.suffix not in _SUFFIXES:
            raise WrongProject(f"{file} is neither .py nor .sql: keep it outside of {stem}")
    return files


def _nearest(name: object, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(str(name), list(names), n=1)
    return f"; the nearest is {near[0]}" if near else ""
