"""`kafkaesque topic`: create, list, describe, alter and delete."""

import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    PARTITIONS_MAX,
    REPLICAS_MAX,
    BootstrapOption,
    JsonOption,
    YesOption,
    check_can_ask,
    new_app,
    parse_pairs,
    wrong_usage,
)
from kafkaesque.cli.commands.topic_elect import elect
from kafkaesque.cli.commands.topic_reassign import reassign
from kafkaesque.cli.completion import TopicArgument, topic_names
from kafkaesque.cli.config_target import Target
from kafkaesque.cli.exit_codes import TIMED_OUT
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.screen import Cell, Screen, Table, counted
from kafkaesque.cli.topic_name import check_collision, check_name

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, TopicMetadata

    from kafkaesque.cli.kafka import Connection
    from kafkaesque.cli.moving_replicas import Moves
    from kafkaesque.cli.offline_replicas import Offline
    from kafkaesque.cli.recoveries import Recoveries

LEADERS_TIMEOUT_S = 15.0
POLL_S = 0.05

app = new_app(help="Create, list, describe, alter and delete topics; move and elect their leaders.")
app.command()(reassign)
app.command()(elect)

NameArgument = TopicArgument
NamesArgument = Annotated[
    list[str],
    typer.Argument(metavar="TOPIC...", show_default=False, autocompletion=topic_names),
]
ConfigOption = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="NAME=VALUE", help="A topic option; may be repeated."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """Where one partition is kept."""

    partition: int
    leader: int | None
    replicas: list[int]
    in_sync: list[int]
    #: Where its broker is down or cannot open it.
    offline: list[int]
    #: How often it was recovered, and what came of the last time; None if that is not known.
    formation: int | None = None
    #: While they move, `replicas` are old and new ones.
    adding: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)
    recovery: str | None = None
    given_up: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """One topic."""

    topic: str
    partitions: list[PartitionRow]
    options: dict[str, str | None]


@app.command()
def create(
    name: NameArgument,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            min=1,
            max=PARTITIONS_MAX,
            help="Default: the broker's num.partitions.",
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            min=1,
            max=REPLICAS_MAX,
            help="Default: default.replication.factor.",
        ),
    ] = None,
    config: ConfigOption = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if the topic already exists.")
    ] = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Create a topic; returns when its partitions have leaders.

    \b
    Example:
      kafkaesque topic create orders --partitions 6 --replication-factor 3
      kafkaesque topic create prices --config cleanup.policy=compact
    """
    check_name(name)
    from confluent_kafka.admin import NewTopic

    from kafkaesque.cli.kafka import OPERATION_TIMEOUT_S, Connection, result_of
    from kafkaesque.cli.missing_rules import on_topic

    options = parse_pairs(config or (), "--config", "retention.ms=86400000")
    connection = Connection(bootstrap)
    admin = connection.admin()
    new = NewTopic(name, partitions or -1, replication_factor or -1, config=options)
    is_new = True
    try:
        result_of(
            admin.create_topics([new], operation_timeout=OPERATION_TIMEOUT_S)[name],
            f"topic {name}",
            on_topic("create", name),
        )
    except CommandFailed as failure:
        if "(TOPIC_EXCEPTION)" in failure.message:
            check_collision(name, connection.metadata(admin).topics)
        if not (if_not_exists and "exists already" in failure.message):
            raise
        is_new = False
    topic = _wait_for_leaders(connection, admin, name, 1)
    sentence = f"created {name}" if is_new else f"{name} exists already"
    copies = len(topic.partitions[0].replicas)
    document = {"topic": name, "created": is_new, **_size(topic)}
    size = f"{counted(len(topic.partitions), 'partition')} of {counted(copies, 'replica')}"
    Screen(json=json).done(f"{sentence}: {size}", document)


@app.command("list")
def list_topics(
    internal: Annotated[
        bool, typer.Option("--internal", help="Also those whose names begin with __.")
    ] = False,
    sizes: Annotated[bool, typer.Option("--sizes", help="Also records and bytes.")] = False,
    rates: Annotated[
        bool, typer.Option("--rates", help="Also these, and records per second, over two seconds.")
    ] = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """List the topics. Their sizes are asked of an admin port.

    \b
    Example:
      kafkaesque topic list
      kafkaesque topic list --sizes
    """
    from kafkaesque.cli.admin_pages import no_admin_port
    from kafkaesque.cli.kafka import Connection
    from kafkaesque.cli.topic_sizes import read_sizes, size_cells, size_columns, with_rates

    connection = Connection(bootstrap)
    found = connection.metadata(connection.admin()).topics
    names = sorted(name for name in found if internal or not name.startswith("__"))
    known = read_sizes(bootstrap) if sizes or rates else None
    if rates:
        known = with_rates(bootstrap, known)
    elif sizes and known is None:
        raise no_admin_port()
    shapes = {name: _size(found[name]) for name in names}
    rows: list[tuple[Cell, ...]] = [
        (name, *shape.values(), *size_cells(known, name)) for name, shape in shapes.items()
    ]
    columns = ("TOPIC", "PARTITIONS", "REPLICAS", *size_columns(known))
    Screen(json=json).show(
        Table(columns=columns, rows=rows),
        [
            {"topic": name, **shape, **({} if known is None else known.document(name))}
            for name, shape in shapes.items()
        ],
    )


@app.command()
def describe(
    names: NamesArgument,
    all_options: Annotated[
        bool, typer.Option("--all", help="Also options that have their default.")
    ] = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Show partitions with leaders and replicas, and the options that were set.

    \b
    Example:
      kafkaesque topic describe orders
    """
    from kafkaesque.cli.alive_brokers import alive_addresses
    from kafkaesque.cli.kafka import Connection
    from kafkaesque.cli.moving_replicas import moves_of_topics, moves_table
    from kafkaesque.cli.offline_replicas import read_offline
    from kafkaesque.cli.recoveries import read_recoveries

    connection = Connection(bootstrap)
    admin = connection.admin()
    existing = {name: _existing(connection, admin, name, "describe") for name in names}
    offline = read_offline(bootstrap)
    formed = read_recoveries(alive_addresses(bootstrap), names)
    screen = Screen(json=json)
    moves = moves_of_topics(bootstrap, names, screen.note)
    found = [
        Description(
            topic=name,
            partitions=_with_moves(
                _partitions(existing[name], name, offline, formed),
                name,
                moves,
            ),
            options=_options(bootstrap, name, all_options),
        )
        for name in names
    ]
    tables = _tables(found)
    if moves:
        tables.insert(1, moves_table(moves))
    screen.show(tables, [asdict(each) for each in found])


@app.command()
def alter(
    name: NameArgument,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", "-p", min=1, max=PARTITIONS_MAX, help="More than there are now."
        ),
    ] = None,
    config: ConfigOption = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", metavar="NAME", help="Back to the default."),
    ] = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Add partitions, or change options.

    With more partitions, later messages of a key may go to another partition.

    \b
    Example:
      kafkaesque topic alter orders --partitions 12
      kafkaesque topic alter orders --config retention.ms=3600000
    """
    from confluent_kafka.admin import NewPartitions

    from kafkaesque.cli.kafka import OPERATION_TIMEOUT_S, Connection, result_of
    from kafkaesque.cli.missing_rules import on_topic

    options = parse_pairs(config or (), "--config", "retention.ms=86400000")
    if partitions is None and not options and not delete_config:
        raise wrong_usage("nothing to alter", "--partitions N, --config NAME=VALUE")
    connection = Connection(bootstrap)
    admin = connection.admin()
    _existing(connection, admin, name, "alter" if partitions is not None else "alter-configs")
    if options or delete_config:
        _alter_options(admin, name, options, delete_config or [])
    if partitions is not None:
        wanted = NewPartitions(name, partitions)
        request = admin.create_partitions([wanted], operation_timeout=OPERATION_TIMEOUT_S)
        result_of(request[name], f"topic {name}", on_topic("alter", name))
        _wait_for_leaders(connection, admin, name, partitions)
    document = {
        "topic": name,
        "partitions": partitions,
        "set": options,
        "deleted": delete_config or [],
    }
    Screen(json=json).done(f"altered {name}", document)


@app.command()
def delete(
    names: NamesArgument,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Succeed if the topic does not exist.")
    ] = False,
    yes: YesOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Delete topics with all their messages. Asks first; scripts need --yes.

    \b
    Example:
      kafkaesque topic delete orders
      kafkaesque topic delete orders prices --yes --if-exists
    """
    from kafkaesque.cli.kafka import OPERATION_TIMEOUT_S, Connection
    from kafkaesque.cli.missing_topics import missing_topic
    from kafkaesque.cli.outcomes import tell_deleted

    check_can_ask("topic delete", yes=yes)
    connection = Connection(bootstrap)
    admin = connection.admin()
    known = connection.metadata(admin).topics
    names = list(dict.fromkeys(names))
    there = [name for name in names if name in known]
    if len(there) < len(names) and not if_exists:
        # Said before anything is deleted: half of a wrong list is not what was meant.
        absent = [name for name in names if name not in known]
        if len(absent) == 1:
            raise missing_topic(bootstrap, absent[0], "delete")
        raise CommandFailed(
            f"topics {', '.join(absent)} do not exist", hint="kafkaesque topic list"
        )
    if there and not yes:
        typer.confirm(f"Delete {', '.join(there)} and all messages in it?", abort=True)
    screen = Screen(json=json)
    if there:
        requests = admin.delete_topics(there, operation_timeout=OPERATION_TIMEOUT_S)
        tell_deleted(screen, requests, "topic")
    else:
        screen.done("nothing to delete", {"deleted": []})


def _existing(
    connection: "Connection", admin: "AdminClient", name: str, operation: str
) -> "TopicMetadata":
    """Return the topic; asking for all of them never creates one by accident."""
    topics = connection.metadata(admin).topics
    if name not in topics:
        from kafkaesque.cli.missing_topics import missing_topic

        raise missing_topic(connection.bootstrap, name, operation)
    return topics[name]


def _wait_for_leaders(
    connection: "Connection", admin: "AdminClient", name: str, partitions_min: int
) -> "TopicMetadata":
    deadline = time.monotonic() + LEADERS_TIMEOUT_S
    while time.monotonic() < deadline:
        topic = connection.metadata(admin).topics.get(name)
        if topic is not None and len(topic.partitions) >= partitions_min:
            if all(each.leader >= 0 for each in topic.partitions.values()):
                return topic
        time.sleep(POLL_S)
    raise CommandFailed(
        f"topic {name} exists, but not every partition has a leader yet",
        hint=f"kafkaesque topic describe {name}",
        exit_code=TIMED_OUT,
    )


def _size(topic: "TopicMetadata") -> dict[str, int]:
    replicas = [len(each.replicas) for each in topic.partitions.values()]
    return {"partitions": len(replicas), "replication_factor": min(replicas, default=0)}


def _partitions(
    topic: "TopicMetadata", name: str, offline: "Offline", formed: "Recoveries | None"
) -> list[PartitionRow]:
    known = {} if formed is None else {(e.topic, e.partition): e for e in formed.recoveries}
    rows = []
    for number, each in sorted(topic.partitions.items()):
        recovery = known.get((name, number))
        row = PartitionRow(
            partition=number,
            leader=each.leader if each.leader >= 0 else None,
            replicas=list(each.replicas),
            # Of a leader that is gone only those brokers know who was, that were up then.
            in_sync=sorted(each.isrs) if each.leader >= 0 else [],
            offline=offline.get((name, number), []),
            formation=0 if formed is not None else None,
        )
        if recovery is not None:
            row = replace(
                row,
                formation=recovery.formation,
                recovery=recovery.state,
                given_up=recovery.lost,
            )
        rows.append(row)
    return rows


def _with_moves(rows: list[PartitionRow], name: str, moves: "Moves") -> list[PartitionRow]:
    from kafkaesque.cli.moving_replicas import Where

    found = []
    for row in rows:
        move = moves.get(Where(name, row.partition))
        if move is not None:
            row = replace(row, adding=list(move.adding), removing=list(move.removing))
        found.append(row)
    return found


def _options(bootstrap: str, name: str, with_defaults: bool) -> dict[str, str | None]:
    from kafkaesque.cli.config_requests import read_values

    found = read_values(bootstrap, Target(topic=name, broker=None))
    return {row.option: row.value for row in found if with_defaults or row.source == "topic"}


def _alter_options(
    admin: "AdminClient", name: str, options: dict[str, str], deleted: list[str]
) -> None:
    from confluent_kafka.admin import (
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        ResourceType,
    )

    from kafkaesque.cli.kafka import result_of
    from kafkaesque.cli.missing_rules import on_topic

    changes = [
        ConfigEntry(option, value, incremental_operation=AlterConfigOpType.SET)
        for option, value in options.items()
    ]
    changes += [
        ConfigEntry(option, None, incremental_operation=AlterConfigOpType.DELETE)
        for option in deleted
    ]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)
    request = admin.incremental_alter_configs([resource])[resource]
    result_of(request, f"topic {name}", on_topic("alter-configs", name))


def _tables(topics: list[Description]) -> list[Table]:
    partitions = [
        (
            each.topic,
            row.partition,
            row.leader,
            _list([node for node in row.replicas if node not in row.adding]),
            _list(row.in_sync),
            _list(row.offline) or None,
        )
        for each in topics
        for row in each.partitions
    ]
    options = [
        (each.topic, option, value) for each in topics for option, value in each.options.items()
    ]
    formed = [
        (each.topic, row.partition, row.formation, row.recovery, row.given_up)
        for each in topics
        for row in each.partitions
        if row.formation
    ]
    columns = ("TOPIC", "PARTITION", "LEADER", "REPLICAS", "IN-SYNC", "OFFLINE")
    tables = [Table(title="partitions", columns=columns, rows=partitions)]
    if formed:
        words = ("TOPIC", "PARTITION", "FORMATION", "STATE", "GIVEN-UP")
        tables.append(Table(title="recoveries", columns=words, rows=formed))
    if options:
        tables.append(Table(title="options", columns=("TOPIC", "OPTION", "VALUE"), rows=options))
    return tables


def _list(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))
