"""`kafkaesque definitions`: export and import."""

import json as json_text
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from kafkaesque.cli.arguments import BOOTSTRAP_DEFAULT, BootstrapOption, JsonOption, new_app
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.screen import Screen, counted

app = new_app(help="Definitions: what RabbitMQ's file has of a cluster, messages excepted.")

#: What a file has, in the order in which it is brought in.
PARTS: Final = (
    "vhosts",
    "users",
    "permissions",
    "topic_permissions",
    "policies",
    "exchanges",
    "queues",
    # Transformations name queues, and bindings name transformations.
    "parameters",
    "bindings",
)
#: From here on, what a virtual host has.
OF_VHOST: Final = PARTS.index("policies")
#: Components of RabbitMQ's whose parameters say something here.
HEEDED: Final = ("operator_policy", "transformation")
#: So many are asked for at once: an answer is waited for half a minute.
CHUNK: Final = 500
OfVhostOption = Annotated[
    str | None,
    typer.Option(
        "--vhost",
        metavar="NAME",
        help="One virtual host alone, whatever its name was in the file.",
        show_default=False,
    ),
]


@app.command("export")
def export(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="Where to write it; without it, here.", show_default=False
        ),
    ] = None,
    vhost: OfVhostOption = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
) -> None:
    """Write virtual hosts, users, permissions, policies, exchanges, queues and bindings as JSON.

    Passwords that were brought over from RabbitMQ are in it, as hashes. Others are not: their users
    come without a password.

    \b
    Example:
      kafkaesque definitions export cluster.json
    """
    from kafkaesque.cli import rabbitmq_requests as requests
    from kafkaesque.cli.private_file import write_private

    found = requests.read(bootstrap, _path(vhost), dict[str, Any])
    text = json_text.dumps(found, indent=2, ensure_ascii=False) + "\n"
    if file is None:
        typer.echo(text, nl=False)
        return
    # It may have hashes of passwords.
    try:
        write_private(file, text.encode())
    except OSError as error:
        raise CommandFailed(f"{file} cannot be written: {error.strerror}") from None
    Screen(json=False).done(f"wrote {_sizes(found)} to {file}", {})


@app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    vhost: OfVhostOption = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Bring in a file of definitions, RabbitMQ's or ours. What is there and the same stays.

    Nothing is removed. If it ends in the middle, run it again.

    \b
    Example:
      rabbitmqctl export_definitions cluster.json
      kafkaesque definitions import cluster.json
    """
    from kafkaesque.cli import rabbitmq_requests as requests

    given = _read(file)
    screen = Screen(json=json)
    hint = "" if vhost is None else f"kafkaesque vhost create {shlex.quote(vhost)}"
    for chunk in _chunks(given, PARTS if vhost is None else PARTS[OF_VHOST:]):
        requests.change(bootstrap, "POST", _path(vhost), chunk, if_absent=hint)
    counts = {part: len(given.get(part) or []) for part in PARTS}
    for sentence in _left_out(given):
        screen.note(sentence)
    screen.done(f"imported {_sizes(given)}", {"imported": counts})


def _chunks(given: dict[str, Any], parts: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Return what is asked for at a time: all of it, if it is little, so that it is checked so."""
    whole = {part: given.get(part) or [] for part in parts}
    if sum(map(len, whole.values())) <= CHUNK:
        yield whole
        return
    for part, items in whole.items():
        for at in range(0, len(items), CHUNK):
            yield {part: items[at : at + CHUNK]}


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json_text.loads(file.read_text())
    except OSError as error:
        raise CommandFailed(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise CommandFailed(f"{file} is no JSON: {error}") from None
    if not isinstance(found, dict) or not any(isinstance(found.get(each), list) for each in PARTS):
        raise CommandFailed(f"{file} is no file of definitions: it has no {', '.join(PARTS)}")
    return found


def _left_out(given: dict[str, Any]) -> list[str]:
    """Return what the file says and the cluster does not heed."""
    components = Counter(
        str(each.get("component"))
        for each in given.get("parameters") or []
        if isinstance(each, dict) and each.get("component") not in HEEDED
    )
    return [f"left out: {counted(n, 'parameter')} of {each}" for each, n in components.items()]


def _path(vhost: str | None) -> str:
    from kafkaesque.cli.rabbitmq_requests import path_of

    return path_of("definitions") if vhost is None else path_of("definitions", vhost)


def _sizes(found: dict[str, Any]) -> str:
    named = {"exchanges": "exchange", "queues": "queue", "bindings": "binding"}
    counts = [counted(len(found.get(part) or []), word) for part, word in named.items()]
    return f"{counts[0]}, {counts[1]} and {counts[2]}"
