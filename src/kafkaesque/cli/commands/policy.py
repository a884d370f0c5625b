"""`kafkaesque policy`: create, list and delete."""

from typing import Annotated, Final

import msgspec
import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    YesOption,
    ask_first,
    new_app,
)
from kafkaesque.cli.exchange_arguments import VhostOption, parse_arguments, shown_arguments
from kafkaesque.cli.screen import Cell, Screen, Table

app = new_app(help="Policies: settings for all queues and exchanges whose names fit a pattern.")

NameArgument = Annotated[str, typer.Argument(metavar="POLICY", show_default=False)]
OperatorOption = Annotated[
    bool,
    typer.Option("--operator", help="An operator's policy: it limits what all others say."),
]
_ROOTS: Final = {False: "policies", True: "operator-policies"}


class _Policy(msgspec.Struct, rename={"apply_to": "apply-to"}):
    vhost: str
    name: str
    pattern: str
    apply_to: str
    definition: dict[str, object]
    priority: int


@app.command()
def create(
    name: NameArgument,
    pattern: Annotated[
        str,
        typer.Option(
            "--pattern",
            "-p",
            metavar="REGEX",
            help="What names have to fit, somewhere: ^orders fits those that begin so.",
            show_default=False,
        ),
    ],
    setting: Annotated[
        list[str],
        typer.Option(
            "--set",
            "-s",
            metavar="NAME=VALUE",
            help="A setting, such as max-length=1000 or dead-letter-exchange=dead. May be "
            "repeated.",
            show_default=False,
        ),
    ],
    apply_to: Annotated[
        str,
        typer.Option(
            "--apply-to",
            metavar="KIND",
            help="all, queues, exchanges, classic_queues, quorum_queues or streams.",
        ),
    ] = "all",
    priority: Annotated[
        int, typer.Option("--priority", help="Of several that fit the highest counts, alone.")
    ] = 0,
    operator: OperatorOption = False,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Create a policy, or change the one of the name. It holds for queues that are there, too.

    \b
    Example:
      kafkaesque policy create short -p '^logs\\.' -s max-length=10000 --apply-to queues
      kafkaesque policy create limit -p . -s max-length=1000000 --operator
    """
    from kafkaesque.cli import rabbitmq_requests as requests

    definition = parse_arguments(setting)
    body = {
        "pattern": pattern,
        "definition": definition,
        "apply-to": apply_to,
        "priority": priority,
    }
    path = requests.path_of(_ROOTS[operator], vhost, name)
    requests.change(bootstrap, "PUT", path, body)
    document = {"policy": name, "vhost": vhost, "is_operator": operator, **body}
    Screen(json=json).done(f"created policy {name}", document)


@app.command("list")
def list_all(
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """List the policies of a virtual host, those first that count first; operators' at the end.

    \b
    Example:
      kafkaesque policy list
    """
    from kafkaesque.cli import rabbitmq_requests as requests

    rows: list[tuple[Cell, ...]] = []
    document = []
    for is_operator, root in _ROOTS.items():
        found = requests.read(bootstrap, requests.path_of(root, vhost), list[_Policy])
        for each in sorted(found, key=lambda policy: (-policy.priority, policy.name)):
            settings = shown_arguments(msgspec.json.encode(each.definition).decode())
            whose = "operator" if is_operator else "user"
            rows.append((each.name, whose, each.priority, each.pattern, each.apply_to, settings))
            document.append({**msgspec.structs.asdict(each), "is_operator": is_operator})
    columns = ("POLICY", "WHOSE", "PRIORITY", "PATTERN", "APPLIES-TO", "SETTINGS")
    Screen(json=json).show(Table(columns=columns, rows=rows), document)


@app.command()
def delete(
    name: NameArgument,
    operator: OperatorOption = False,
    yes: YesOption = False,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Delete a policy. Queues and exchanges that it was for are as they were made.

    \b
    Example:
      kafkaesque policy delete short --yes
    """
    from kafkaesque.cli import rabbitmq_requests as requests

    ask_first("policy delete", f"Delete policy {name}?", yes=yes)
    requests.change(bootstrap, "DELETE", requests.path_of(_ROOTS[operator], vhost, name))
    Screen(json=json).done(f"deleted policy {name}", {"policy": name, "vhost": vhost})
