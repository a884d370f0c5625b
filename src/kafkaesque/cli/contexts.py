"""Named clusters: what the environment's variables would say, kept in a file.

A context has addresses and names of files, and never a password. It stands in for variables that
are not set; one that is chosen by `--context` comes before those that are.
"""

import json
import os
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kafkaesque.cli.arguments import wrong_usage

FILE_VARIABLE: Final = "KAFKAESQUE_CONTEXTS_FILE"
CHOICE_VARIABLE: Final = "KAFKAESQUE_CONTEXT"
#: What a context may have.
VARIABLES: Final = (
    "KAFKAESQUE_BOOTSTRAP_SERVER",
    "KAFKAESQUE_ADMIN",
    "KAFKAESQUE_CA",
    "KAFKAESQUE_COMMAND_CONFIG",
    "KAFKAESQUE_PASSWORD_FILE",
    "KAFKAESQUE_SESSION_FILE",
    "KAFKAESQUE_TOTP_FILE",
    "KAFKAESQUE_USER",
)
#: These name files: from another directory, they would name others.
_PATHS: Final = (
    "KAFKAESQUE_CA",
    "KAFKAESQUE_COMMAND_CONFIG",
    "KAFKAESQUE_PASSWORD_FILE",
    "KAFKAESQUE_SESSION_FILE",
    "KAFKAESQUE_TOTP_FILE",
)
#: They run brokers or read files, and connect nowhere by default.
WITHOUT: Final = ("up", "broker", "certs", "context", "log", "sim", "bench")
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
FILE_BYTES_MAX: Final = 256 * 1024
CONTEXTS_MAX: Final = 1_000


@dataclass(slots=True, kw_only=True)
class Contexts:
    """All contexts of a person, and the one that is used."""

    current: str | None = None
    contexts: dict[str, dict[str, str]] = field(default_factory=dict)


def contexts_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where contexts are kept."""
    named = environment.get(FILE_VARIABLE)
    if named:
        return Path(named)
    home = environment.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "kafkaesque" / "contexts.json"


def read_contexts(environment: Mapping[str, str] = os.environ) -> Contexts:
    """Return the contexts; none if there is no file.

    Raises:
        CommandFailed: the file is none of ours.
    """
    path = contexts_path(environment)
    try:
        data = path.read_bytes()[: FILE_BYTES_MAX + 1]
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise wrong_usage(f"cannot read {path}: {error.strerror}", f"remove {path}") from None
    try:
        found = json.loads(data)
        current = found["current"]
        contexts = {
            str(name): {str(key): str(value) for key, value in each.items() if key in VARIABLES}
            for name, each in found["contexts"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise wrong_usage(f"{path} is no file of contexts", f"remove {path}") from None
    return Contexts(current=None if current is None else str(current), contexts=contexts)


def write_contexts(found: Contexts, environment: Mapping[str, str] = os.environ) -> None:
    """Keep contexts; the file is replaced as a whole.

    Raises:
        CommandFailed: it cannot be written.
    """
    path = contexts_path(environment)
    document = {"current": found.current, "contexts": found.contexts}
    beside = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps(document, indent=1) + "\n")
        beside.replace(path)
    except OSError as error:
        raise wrong_usage(f"cannot write {path}: {error.strerror}", FILE_VARIABLE) from None


def check_name(name: str) -> None:
    """Check that a context may be called so.

    Raises:
        CommandFailed: it may not.
    """
    if not NAME.fullmatch(name):
        raise wrong_usage(
            f"a context cannot be called {name!r}", "letters, digits, '.', '_' and '-'"
        )


def find(found: Contexts, name: str) -> dict[str, str]:
    """Return a context.

    Raises:
        CommandFailed: there is none of this name.
    """
    if name not in found.contexts:
        known = ", ".join(sorted(found.contexts)) or "kafkaesque context create NAME"
        raise wrong_usage(f"there is no context {name!r}", known)
    return found.contexts[name]


def from_environment(environment: Mapping[str, str], bootstrap: str | None) -> dict[str, str]:
    """Return what the variables say now; files by their whole paths."""
    said = {
        name: str(Path(value).absolute()) if name in _PATHS else value
        for name in VARIABLES
        if (value := environment.get(name))
    }
    if bootstrap is not None:
        said["KAFKAESQUE_BOOTSTRAP_SERVER"] = bootstrap
    return said


def apply(chosen: str | None, environment: MutableMapping[str, str]) -> None:
    """Set variables as a context says: the chosen one, or that which is used where none is set.

    Raises:
        CommandFailed: there is no such context.
    """
    if chosen is not None:
        context = find(read_contexts(environment), chosen)
        for name in VARIABLES:
            environment.pop(name, None)
        environment.update(context)
        return
    found = read_contexts(environment)
    if found.current is None or any(environment.get(name) for name in VARIABLES):
        # Half of one cluster and half of another would send a password to the wrong one.
        return
    environment.update(find(found, found.current))
