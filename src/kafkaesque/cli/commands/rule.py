"""`kafkaesque rule`: who may do what; and `test`, which is that of `kafkaesque transformation`."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    YesOption,
    check_can_ask,
    new_app,
    wrong_usage,
)
from kafkaesque.cli.commands import transformation
from kafkaesque.cli.screen import Screen, Table, counted

if TYPE_CHECKING:
    from kafkaesque.cli.access_requests import ShownRule, Wanted

app = new_app(help="Rules of who may do what; and test, for rules that change messages.")
app.command(
    "test",
    help="""Show what a rule that changes messages makes of one: as `transformation test`.

    It is the one command here that is not about who may do what. Nothing is published, no cluster
    is changed.

    \b
    Example:
      kafkaesque rule test --rule v2.json '{"total": "12.50"}' -H region=eu
    """,
)(transformation.try_out)

#: Topics that are named of those that a rule matches.
NAMED_MAX: Final = 10
_COLUMNS: Final = ("EFFECT", "WHO", "OPERATION", "RESOURCE", "PATTERN", "NAME", "FROM")

TopicOption = Annotated[
    str | None, typer.Option("--topic", metavar="NAME", help="A topic, or * for any.")
]
GroupOption = Annotated[
    str | None, typer.Option("--group", metavar="NAME", help="A group, or * for any.")
]
IdOption = Annotated[
    str | None,
    typer.Option("--transactional-id", metavar="NAME", help="A transactional id, or * for any."),
]
QueueOption = Annotated[
    str | None, typer.Option("--queue", metavar="NAME", help="A queue, or * for any.")
]
SubjectOption = Annotated[
    str | None,
    typer.Option(
        "--subject",
        metavar="NAME",
        help="A subject of NATS, with / between its levels, or of schemas, or * for any.",
    ),
]
ExchangeOption = Annotated[
    str | None, typer.Option("--exchange", metavar="NAME", help="An exchange, or * for any.")
]
VhostOption = Annotated[
    str | None, typer.Option("--vhost", metavar="NAME", help="A virtual host, or * for any.")
]
UserOption = Annotated[
    str | None,
    typer.Option("--user", metavar="NAME", help="A user, for whom tokens are made, or * for any."),
]
ClusterOption = Annotated[bool, typer.Option("--cluster", help="The cluster as a whole.")]
PrincipalOption = Annotated[
    str | None, typer.Option("--principal", metavar="WHO", help="Only of User:NAME or Role:NAME.")
]
OneOperationOption = Annotated[
    str | None, typer.Option("--operation", "-o", metavar="OPERATION", help="Only of this one.")
]
EffectOption = Annotated[
    str | None, typer.Option("--effect", metavar="allow|deny", help="Only of this effect.")
]
PrefixOption = Annotated[
    bool, typer.Option("--prefix", help="All names that begin with the given one.")
]


@app.command()
def create(
    principal: Annotated[
        str, typer.Argument(metavar="WHO", help="User:NAME, Role:NAME or User:* for all.")
    ],
    operation: Annotated[
        list[str],
        typer.Option(
            "--operation",
            "-o",
            metavar="OPERATION",
            help="Such as read, write, create, delete, describe, all. May be repeated.",
            show_default=False,
        ),
    ],
    topic: TopicOption = None,
    group: GroupOption = None,
    transactional_id: IdOption = None,
    queue: QueueOption = None,
    subject: SubjectOption = None,
    exchange: ExchangeOption = None,
    vhost: VhostOption = None,
    user: UserOption = None,
    cluster: ClusterOption = False,
    prefix: PrefixOption = False,
    deny: Annotated[bool, typer.Option("--deny", help="Forbid it: that wins.")] = False,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Only from an address or network.")
    ] = "*",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what it is for, and add nothing.")
    ] = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Add a rule, and show which topics, groups or queues there are that it is for.

    \b
    Example:
      kafkaesque rule create User:app -o read -o write --topic orders- --prefix
    """
    from kafkaesque.access.operations import ResourceType
    from kafkaesque.cli import access_requests as requests
    from kafkaesque.protocols.kafka.messages.create_acls_request import AclCreation

    kind, name = _resource(
        topic, group, transactional_id, queue, subject, exchange, vhost, user, cluster=cluster
    )
    _check_principal(principal)
    rules = [
        AclCreation(
            kind,
            name,
            requests.PREFIXED if prefix else requests.LITERAL,
            principal,
            host,
            _operation(each),
            requests.DENY if deny else requests.ALLOW,
        )
        for each in operation
    ]
    matched = requests.names_of(bootstrap, ResourceType(kind), name, is_prefix=prefix)
    if not dry_run:
        requests.add_rules(bootstrap, rules)
    sentence = _sentence(len(rules), matched, ResourceType(kind).name.lower(), dry_run=dry_run)
    document = {
        "added": not dry_run,
        "topics": matched if topic is not None else [],
        "names": matched,
    }
    Screen(json=json).done(sentence, document)


def _sentence(count: int, matched: list[str] | None, noun: str, *, dry_run: bool) -> str:
    """Return what was done, or would be; `matched` is None where nobody can list the names."""
    done = f"{'would add' if dry_run else 'added'} {counted(count, 'rule')}"
    if matched is None:
        return done
    return f"{done}; {'it matches' if count == 1 else 'they match'} {_told(matched, noun)}"


def _told(topics: Sequence[str], noun: str) -> str:
    if not topics:
        return f"no existing {noun}"
    more = len(topics) - NAMED_MAX
    named = ", ".join(topics[:NAMED_MAX])
    return f"{named} and {more} more" if more > 0 else named


def _resource(
    topic: str | None,
    group: str | None,
    transactional_id: str | None,
    queue: str | None,
    subject: str | None,
    exchange: str | None,
    vhost: str | None,
    user: str | None,
    *,
    cluster: bool,
) -> tuple[int, str]:
    from kafkaesque.access.operations import CLUSTER_NAME, ResourceType

    given = [
        (ResourceType.TOPIC, topic),
        (ResourceType.GROUP, group),
        (ResourceType.TRANSACTIONAL_ID, transactional_id),
        (ResourceType.QUEUE, queue),
        (ResourceType.SUBJECT, subject),
        (ResourceType.EXCHANGE, exchange),
        (ResourceType.VHOST, vhost),
        (ResourceType.USER, user),
        (ResourceType.CLUSTER, CLUSTER_NAME if cluster else None),
    ]
    found = [(kind, name) for kind, name in given if name is not None]
    if len(found) != 1:
        raise wrong_usage(
            "give one of --topic, --group, --transactional-id, --queue, --subject, --exchange, "
            "--vhost, --user and --cluster"
        )
    return found[0]


def _check_principal(word: str) -> None:
    from kafkaesque.access.principals import read_principal
    from kafkaesque.model.errors import InvalidRequest

    try:
        read_principal(word)
    except InvalidRequest as error:
        raise wrong_usage(str(error), "" if ":" in word else f"User:{word}") from None


def _operation(word: str) -> int:
    import difflib

    from kafkaesque.access.operations import Operation

    names = {each.name.lower().replace("_", "-"): each for each in Operation}
    found = names.get(word.lower())
    if found is None:
        near = difflib.get_close_matches(word.lower(), names, n=1)
        hint = f"did you mean {near[0]}?" if near else ", ".join(names)
        raise wrong_usage(f"there is no operation {word!r}", hint)
    return found


@app.command("list")
def list_all(
    principal: PrincipalOption = None,
    topic: TopicOption = None,
    group: GroupOption = None,
    transactional_id: IdOption = None,
    queue: QueueOption = None,
    subject: SubjectOption = None,
    exchange: ExchangeOption = None,
    vhost: VhostOption = None,
    user: UserOption = None,
    cluster: ClusterOption = False,
    operation: OneOperationOption = None,
    effect: EffectOption = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """List the rules that all of the given options are for.

    \b
    Example:
      kafkaesque rule list --principal User:app
    """
    from kafkaesque.cli.access_requests import list_rules

    resource = _maybe_resource(
        topic, group, transactional_id, queue, subject, exchange, vhost, user, cluster=cluster
    )
    wanted = _wanted(principal, resource, operation, effect)
    _show(Screen(json=json), list_rules(bootstrap, wanted))


def _maybe_resource(
    topic: str | None,
    group: str | None,
    transactional_id: str | None,
    queue: str | None,
    subject: str | None,
    exchange: str | None,
    vhost: str | None,
    user: str | None,
    *,
    cluster: bool,
) -> tuple[int, str] | None:
    given = (topic, group, transactional_id, queue, subject, exchange, vhost, user)
    if not cluster and all(each is None for each in given):
        return None
    return _resource(
        topic, group, transactional_id, queue, subject, exchange, vhost, user, cluster=cluster
    )


def _wanted(
    principal: str | None,
    resource: tuple[int, str] | None,
    operation: str | None,
    effect: str | None,
    *,
    is_prefix: bool | None = None,
) -> "Wanted":
    from kafkaesque.access.operations import ResourceType
    from kafkaesque.cli import access_requests as requests

    if principal is not None:
        _check_principal(principal)
    effects = {None: requests.ANY, "allow": requests.ALLOW, "deny": requests.DENY}
    if effect not in effects:
        raise wrong_usage(f"there is no effect {effect!r}", "allow or deny")
    return requests.Wanted(
        principal=principal,
        resource_type=None if resource is None else ResourceType(resource[0]),
        name=None if resource is None else resource[1],
        is_prefix=is_prefix,
        operation=requests.ANY if operation is None else _operation(operation),
        effect=effects[effect],
    )


def _show(screen: Screen, rules: "Sequence[ShownRule]") -> None:
    rows = sorted(tuple(asdict(each).values()) for each in rules)
    screen.show(Table(columns=_COLUMNS, rows=rows), [asdict(each) for each in rules])


@app.command()
def delete(
    principal: PrincipalOption = None,
    topic: TopicOption = None,
    group: GroupOption = None,
    transactional_id: IdOption = None,
    queue: QueueOption = None,
    subject: SubjectOption = None,
    exchange: ExchangeOption = None,
    vhost: VhostOption = None,
    user: UserOption = None,
    cluster: ClusterOption = False,
    operation: OneOperationOption = None,
    effect: EffectOption = None,
    prefix: Annotated[
        bool | None,
        typer.Option("--prefix/--literal", help="Only rules for prefixes, or for whole names."),
    ] = None,
    yes: YesOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Delete the rules that all of the given options are for.

    \b
    Example:
      kafkaesque rule delete --principal User:app --topic orders- --yes
    """
    from kafkaesque.cli.access_requests import list_rules, remove_rules

    resource = _maybe_resource(
        topic, group, transactional_id, queue, subject, exchange, vhost, user, cluster=cluster
    )
    if principal is None and resource is None:
        raise wrong_usage("give --principal or a resource: all rules are too many")
    wanted = _wanted(principal, resource, operation, effect, is_prefix=prefix)
    check_can_ask("rule delete", yes=yes)
    screen = Screen(json=json)
    if not yes:
        _show(screen, list_rules(bootstrap, wanted))
        typer.confirm("Delete these rules?", abort=True)
    removed = remove_rules(bootstrap, wanted)
    screen.done(
        f"{counted(len(removed), 'rule')} deleted", {"deleted": [asdict(each) for each in removed]}
    )


@app.command()
def explain(
    operation: Annotated[
        str,
        typer.Option(
            "--operation",
            "-o",
            metavar="OPERATION",
            help="Such as read or write.",
            show_default=False,
        ),
    ],
    topic: Annotated[str | None, typer.Option("--topic", metavar="NAME", help="A topic.")] = None,
    group: Annotated[str | None, typer.Option("--group", metavar="NAME", help="A group.")] = None,
    transactional_id: Annotated[
        str | None, typer.Option("--transactional-id", metavar="NAME", help="A transactional id.")
    ] = None,
    queue: Annotated[str | None, typer.Option("--queue", metavar="NAME", help="A queue.")] = None,
    subject: SubjectOption = None,
    exchange: ExchangeOption = None,
    vhost: VhostOption = None,
    user: UserOption = None,
    cluster: ClusterOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Show who may do something, and because of which rule or role.

    Nobody else may. The resource need not exist.

    \b
    Example:
      kafkaesque rule explain -o read --topic orders-eu
    """
    from kafkaesque.access.administration import AskGrants, Grants
    from kafkaesque.access.operations import Operation, ResourceType
    from kafkaesque.cli.access_requests import ask_access

    kind, name = _resource(
        topic, group, transactional_id, queue, subject, exchange, vhost, user, cluster=cluster
    )
    asked = AskGrants(
        operation=Operation(_operation(operation)), resource_type=ResourceType(kind), name=name
    )
    answer = ask_access(bootstrap, asked, Grants)
    rows = [
        (
            each.principal,
            "; and ".join(filter(None, (each.rule, each.also))) or "is a super user",
            "; ".join(each.but_for),
        )
        for each in answer.grants
    ]
    document = [
        {
            "principal": each.principal,
            "rule": each.rule or None,
            "also": each.also or None,
            "but_for": list(each.but_for),
        }
        for each in answer.grants
    ]
    screen = Screen(json=json)
    if answer.queue:
        screen.note(
            f"Topic {name} shows the queue {answer.queue}: rules for both have to allow it."
        )
    screen.show(Table(columns=("WHO", "BECAUSE-OF", "BUT"), rows=rows), document)
