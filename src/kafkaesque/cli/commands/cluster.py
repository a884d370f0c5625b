"""`kafkaesque cluster`: what a cluster looks like, waiting until it is ready, and its brokers."""

import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    TimeoutOption,
    new_app,
)
from kafkaesque.cli.commands.cluster_brokers import add_commands
from kafkaesque.cli.commands.cluster_controllers import app as controllers_app
from kafkaesque.cli.exit_codes import FAILED, TIMED_OUT, UNREACHABLE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.screen import Cell, Screen, Table, counted
from kafkaesque.model.ids import NO_NODE

if TYPE_CHECKING:
    from confluent_kafka.admin import ClusterMetadata

    from kafkaesque.cli.broker_details import BrokerDetails
    from kafkaesque.cli.doctor.facts import Facts
    from kafkaesque.cli.quorum import Quorum
    from kafkaesque.protocols.kafka.messages.describe_cluster_response import (
        DescribeClusterResponse,
    )

POLL_S = 0.2
#: How asking fails while a cluster is on its way: nobody answers, or a broker cannot say it yet.
_MAY_PASS = (UNREACHABLE, FAILED)

app = new_app(help="Look at a cluster, wait until it is ready, move what its brokers hold.")


add_commands(app)
app.add_typer(controllers_app, name="controllers")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """A broker that is up."""

    id: int
    host: str
    port: int
    is_controller: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """A cluster as one of its brokers sees it; partitions are named topic-number."""

    cluster_id: str
    #: The one that leads; -1 if it is known that none does.
    controller: int
    brokers: list[BrokerRow]
    topics: int
    partitions: int
    leaderless: list[str]
    under_replicated: list[str]
    #: Partitions with replicas whose brokers are down or cannot open them; on which brokers.
    offline_replicas: dict[str, list[int]] = field(default_factory=dict)
    #: Of all brokers that are known, up or not.
    details: "list[BrokerDetails]" = field(default_factory=list)

    def is_ready(self, brokers: int) -> bool:
        return len(self.brokers) >= brokers and not self.leaderless

    @property
    def summary(self) -> str:
        """What there is, and what is wrong, in one line."""
        words = [counted(len(self.brokers), "broker"), counted(self.partitions, "partition")]
        if self.leaderless:
            words.append(f"{len(self.leaderless)} without a leader")
        if self.under_replicated:
            words.append(f"{len(self.under_replicated)} with replicas missing")
        return ", ".join(words)


@app.command()
def status(
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Show brokers, their releases and disks, and partitions that lack a leader or replicas.

    Moves are shown too; they are not problems, because the old replicas serve until the new ones
    are in sync.

    If the cluster has a secret, it also shows what one broker knows of all members by gossip. It
    shows which partitions are being recovered after losing their majority, or ever were.

    `kafkaesque doctor` says what is wrong, why, and what helps. Ends with 1 if a
    partition has no leader, or no controller leads.

    \b
    Example:
      kafkaesque cluster status
      kafkaesque cluster status --bootstrap-server 10.0.0.7:9092 --json
    """
    from kafkaesque.cli.broker_details import details_of
    from kafkaesque.cli.doctor.probe import look
    from kafkaesque.cli.gossip_members import members_table, read_members
    from kafkaesque.cli.kafka import Connection
    from kafkaesque.cli.missing_rules import NO_RULE, on_cluster
    from kafkaesque.cli.moving_replicas import moves_document, moves_table
    from kafkaesque.cli.recoveries import read_recoveries, recoveries_table

    Connection(bootstrap)  # says best what to do where nobody listens
    facts = look(bootstrap)
    # Those that hang would be waited for again with each question.
    bootstrap = facts.alive_addresses or bootstrap
    found = replace(read_status(bootstrap), details=details_of(facts))
    found = _led_by(facts.controller, replace(found, under_replicated=_lacking(found, facts)))
    addresses = [(e.id, e.host, e.port) for e in found.brokers if facts.answers(e.id)]
    gossip, recoveries = read_members(addresses), read_recoveries(addresses)
    quorum = None if facts.has_no_controller else _quorum(bootstrap, facts.hanging_brokers)
    voters = facts.controllers if quorum is None else quorum.voters
    tables = _tables(found, voters)
    if gossip is not None:
        tables.insert(2, members_table(gossip))
    if facts.moves:
        tables.append(moves_table(facts.moves))
    if recoveries is not None and recoveries.count:
        tables.append(recoveries_table(recoveries))
    rows: list[tuple[Cell, ...]] = [
        ("moving", None if facts.has_unseen_moves else len(facts.moves)),
        ("controllers", ", ".join(map(str, voters)) or None),
    ]
    tables[0] = replace(tables[0], rows=[*tables[0].rows, *rows])
    seen = {"gossip": gossip, "recoveries": recoveries, "quorum": quorum}
    extra: dict[str, object] = {
        name: None if each is None else asdict(each) for name, each in seen.items()
    }
    extra["moves"] = moves_document(facts.moves)
    screen = Screen(json=json)
    screen.show(tables, {**asdict(found), **extra})
    if not facts.names_all:
        right = on_cluster("describe")
        screen.note(f"Topics that this user may not describe are not counted: {NO_RULE} {right}.")
    _end_by(found)


def _end_by(found: ClusterStatus) -> None:
    """Say that something is not served, if it is so: replicas that are missing are no outage.

    Raises:
        CommandFailed: partitions are neither written nor read, or nothing can be created or moved.
    """
    problems = []
    if found.leaderless:
        have = "has" if len(found.leaderless) == 1 else "have"
        problems.append(
            f"{len(found.leaderless)} of {counted(found.partitions, 'partition')} {have} no leader"
        )
    if found.controller < 0:
        problems.append("no controller leads")
    if problems:
        raise CommandFailed(
            ", and ".join(problems), hint="kafkaesque doctor    (says why, and what helps)"
        )


@app.command()
def wait(
    brokers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many brokers must be up.",
            show_default="all that the cluster knows",
        ),
    ] = None,
    in_sync: Annotated[
        bool,
        typer.Option(
            "--in-sync",
            help="Also wait until every broker sees every replica in sync: then the next broker "
            "may be restarted.",
        ),
    ] = False,
    timeout: TimeoutOption = 60.0,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Wait until the brokers are up, and every partition has a leader.

    Without --brokers, waits for all registered brokers, up or not, and all controllers. Ends with 5
    if that does not happen in time, and with 3 if no broker answers.

    \b
    Example:
      kafkaesque cluster wait
      kafkaesque cluster wait --brokers 3 --timeout 30
      kafkaesque cluster wait --brokers 3 --in-sync
    """
    from kafkaesque.cli.long_wait import LongWait

    screen = Screen(json=json)
    deadline = time.monotonic() + timeout
    with LongWait(screen.note) as long_wait:
        while True:
            found = _try(bootstrap)
            reasons = _reasons_to_wait(found, bootstrap, brokers, in_sync=in_sync)
            if isinstance(found, ClusterStatus) and not reasons:
                found = _without_moves(found, bootstrap)
                screen.done(f"ready: {found.summary}", asdict(found))
                return
            if time.monotonic() >= deadline:
                break
            long_wait.what = f"the cluster: {'; '.join(reasons)}"
            time.sleep(POLL_S)
    if isinstance(found, CommandFailed) and found.exit_code == UNREACHABLE:
        raise found
    if isinstance(found, ClusterStatus) and found.leaderless and brokers is None:
        reasons += _missing_brokers(bootstrap)
    raise CommandFailed(
        f"not ready after {timeout:g} s: {'; '.join(reasons)}",
        hint="kafkaesque doctor" if in_sync else "kafkaesque cluster status",
        exit_code=TIMED_OUT,
    )


def _reasons_to_wait(
    found: ClusterStatus | CommandFailed, bootstrap: str, brokers: int | None, *, in_sync: bool
) -> list[str]:
    from kafkaesque.cli.doctor.probe import look
    from kafkaesque.cli.doctor.restart_check import reasons_to_wait

    if isinstance(found, CommandFailed):
        return [found.message]
    if not found.is_ready(brokers or 1):
        if brokers is None:
            return [found.summary]
        were = "was" if brokers == 1 else "were"
        return [f"{found.summary}; {counted(brokers, 'broker')} {were} asked for"]
    missing = _missing_brokers(bootstrap) if brokers is None else []
    if missing or not in_sync:
        return missing
    try:
        return reasons_to_wait(look(bootstrap), brokers or 1)
    except CommandFailed as failure:
        if failure.exit_code not in _MAY_PASS:
            raise
        return [failure.message]


def _missing_brokers(bootstrap: str) -> list[str]:
    """Return which brokers are known and do not answer, in a sentence; none if all do."""
    from kafkaesque.cli.awaited_brokers import awaited_brokers
    from kafkaesque.cli.doctor.probe import look

    try:
        return awaited_brokers(look(bootstrap))
    except CommandFailed as failure:
        if failure.exit_code not in _MAY_PASS:
            raise
        return [failure.message]


def _led_by(controller: int | None, found: ClusterStatus) -> ClusterStatus:
    """Return the same with the controller that is known to lead; -1 is none."""
    number = -1 if controller is None else controller
    brokers = [replace(each, is_controller=each.id == number) for each in found.brokers]
    return replace(found, controller=number, brokers=brokers)


def _without_moves(found: ClusterStatus, bootstrap: str) -> ClusterStatus:
    """Return the same without the partitions whose replicas are only on their way."""
    from kafkaesque.cli.doctor.probe import look

    if not found.under_replicated:
        return found
    try:
        return replace(found, under_replicated=_lacking(found, look(bootstrap)))
    except CommandFailed:
        return found


def _lacking(found: ClusterStatus, facts: "Facts") -> list[str]:
    """Return the partitions with replicas missing; those that are on their way are not."""
    from kafkaesque.cli.moving_replicas import Where, missing_in_sync

    lacking = {
        str(name)
        for name, each in facts.view.partitions.items()
        if missing_in_sync(each.replicas, each.in_sync, facts.moves.get(Where(*name)))
    }
    return [name for name in found.under_replicated if name in lacking]


def read_status(bootstrap: str) -> ClusterStatus:
    """Ask the cluster.

    Raises:
        CommandFailed: nobody answers.
    """
    from kafkaesque.cli.alive_brokers import describe_cluster
    from kafkaesque.cli.kafka import Connection
    from kafkaesque.cli.offline_replicas import read_offline

    connection = Connection(bootstrap)
    found = status_of(connection.metadata(connection.admin()), describe_cluster(bootstrap))
    offline = {
        f"{topic}-{partition}": nodes
        for (topic, partition), nodes in sorted(read_offline(bootstrap).items())
    }
    return replace(found, offline_replicas=offline)


def status_of(metadata: "ClusterMetadata", described: "DescribeClusterResponse") -> ClusterStatus:
    """Return the status that two answers show: topics, and which brokers are alive."""
    alive = {each.broker_id for each in described.brokers}
    leaderless, under_replicated, count = [], [], 0
    for name, topic in sorted(metadata.topics.items()):
        for number, partition in sorted(topic.partitions.items()):
            count += 1
            if partition.leader < 0:
                leaderless.append(f"{name}-{number}")
            if len(partition.isrs) < len(partition.replicas):
                under_replicated.append(f"{name}-{number}")
    # A broker that is cut off names one that it does not hear of.
    controller = described.controller_id if described.controller_id in alive else NO_NODE
    return ClusterStatus(
        cluster_id=str(metadata.cluster_id),
        controller=controller,
        brokers=[
            BrokerRow(
                id=number,
                host=str(each.host),
                port=int(each.port or 0),
                is_controller=number == controller,
            )
            for number, each in sorted(metadata.brokers.items())
            if number in alive
        ],
        topics=len(metadata.topics),
        partitions=count,
        leaderless=leaderless,
        under_replicated=under_replicated,
    )


def _quorum(bootstrap: str, hanging: Collection[int]) -> "Quorum | None":
    from kafkaesque.cli.quorum import read_quorum, with_hanging

    try:
        return with_hanging(read_quorum(bootstrap), hanging)
    except CommandFailed:
        return None  # nobody leads them; the rest can be told all the same


def _try(bootstrap: str) -> ClusterStatus | CommandFailed:
    try:
        return read_status(bootstrap)
    except CommandFailed as failure:
        if failure.exit_code not in _MAY_PASS:
            raise
        return failure


def _broker_cells(
    broker: "BrokerDetails", found: ClusterStatus, voters: Sequence[int]
) -> tuple[Cell, ...]:
    addresses = {each.id: f"{each.host}:{each.port}" for each in found.brokers}
    role = "leads" if broker.id == found.controller else "votes" if broker.id in voters else None
    return (
        broker.id,
        addresses.get(broker.id),
        role,
        broker.state,
        broker.leads,
        broker.version,
        broker.disk_free,
    )


def _tables(found: ClusterStatus, voters: Sequence[int] = ()) -> list[Table]:
    from kafkaesque.cli.partition_troubles import Troubles, troubles_table

    brokers = Table(
        title="brokers",
        columns=("BROKER", "ADDRESS", "CONTROLLER", "STATE", "LEADS", "VERSION", "DISK-FREE"),
        rows=[_broker_cells(each, found, voters) for each in found.details],
    )
    facts = Table(
        title="cluster",
        columns=("FACT", "VALUE"),
        rows=[
            ("cluster id", found.cluster_id),
            ("leading controller", found.controller if found.controller >= 0 else None),
            ("brokers", len(found.brokers)),
            ("topics", found.topics),
            ("partitions", found.partitions),
            ("leaderless", len(found.leaderless)),
            ("under-replicated", len(found.under_replicated)),
            ("offline replicas", sum(map(len, found.offline_replicas.values()))),
        ],
    )
    troubles = troubles_table(
        Troubles(
            leaderless=found.leaderless,
            under_replicated=found.under_replicated,
            offline=found.offline_replicas,
        )
    )
    return [facts, brokers] if troubles is None else [facts, brokers, troubles]
