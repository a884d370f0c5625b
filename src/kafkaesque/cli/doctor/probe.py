"""Looks at a cluster: every broker by itself and all at once, so that a dead one delays nobody."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from http.client import HTTPException
from typing import Any

from kafkaesque.access.operations import Operation
from kafkaesque.cli.addresses import parse_addresses
from kafkaesque.cli.admin_pages import get_page
from kafkaesque.cli.doctor.admin_port import Forbidden, ask_admin
from kafkaesque.cli.doctor.advice import of_brokers
from kafkaesque.cli.doctor.facts import (
    BrokerFacts,
    Disk,
    Facts,
    GroupFacts,
    PartitionFacts,
    PartitionName,
    View,
    most_agreed,
)
from kafkaesque.cli.doctor.findings import named
from kafkaesque.cli.doctor.out_of_date import is_out_of_date
from kafkaesque.cli.doctor.queue_probe import look_at_queues
from kafkaesque.cli.exit_codes import UNREACHABLE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka_request import Exchange, refusal_of
from kafkaesque.cli.missing_rules import NO_RULE, on_cluster
from kafkaesque.cli.moving_replicas import Moves, read_moving
from kafkaesque.cli.quorum import METADATA_TOPIC, Quorum, read_quorum
from kafkaesque.cli.recoveries import read_recoveries
from kafkaesque.cli.troubles import why
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.messages.describe_cluster_request import DescribeClusterRequest
from kafkaesque.protocols.kafka.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kafkaesque.protocols.kafka.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kafkaesque.protocols.kafka.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from kafkaesque.protocols.kafka.messages.list_transactions_request import ListTransactionsRequest
from kafkaesque.protocols.kafka.messages.metadata_request import MetadataRequest

ANSWER_TIMEOUT_S = 5.0
#: A broker looks for a leading controller for 5 s before it says that there is none.
LEADER_TIMEOUT_S = 7.0
#: So long a broker looks for a controller that says which replicas move.
MOVES_TIMEOUT_MS = 2_000
#: Brokers that are asked at the same time.
AT_ONCE_MAX = 16
#: Topics whose options are asked for in one request.
TOPICS_PER_REQUEST = 500
#: Groups that are looked at; beyond them it takes too long.
GROUPS_MAX = 200
#: Groups are looked at for so long: each may wait for a coordinator that has just died.
GROUPS_S = 15.0
#: Where brokers do not answer, their groups will not, and the rest is wanted soon.
GROUPS_HURT_S = 3.0
#: Brokers that disagree are asked again after this: news takes a moment to come round.
AGAIN_S = 1.0
#: So often, and after so long, brokers are asked again that have not noticed who is gone.
SETTLE_TRIES_MAX = 6
SETTLE_S = 0.5

_CLUSTER, _ALIVE = 2, 0
_METADATA, _CONFIGS, _LOG_DIRS, _TRANSACTIONS = 12, 4, 4, 1
_TOPIC, _BROKER = 2, 4
_QUORUM = 2
_FORBIDDEN = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
#: What a broker leaves out of its answers without a word.
_HIDDEN = f"topics, groups and transactions of others: {NO_RULE} {on_cluster('describe')}"

Trouble = (OSError, EOFError, MalformedRequest)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RegisteredBroker:
    id: int
    admin: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _RegisteredBrokers:
    """The page `/brokers`."""

    brokers: list[_RegisteredBroker]


def look(bootstrap: str) -> Facts:
    """Return brokers and partitions.

    Raises:
        CommandFailed: no broker answers.
    """
    view, registered, names_all = _first_view(bootstrap)
    addresses = sorted({**registered, **view.brokers}.items())
    unknown = [BrokerFacts(id=number, address=address) for number, address in addresses]
    known = Facts(view=view, brokers=unknown, registered=sorted(registered), names_all=names_all)
    found = _look_at_all(known)
    for _ in range(SETTLE_TRIES_MAX):
        if not is_out_of_date(found):
            break
        time.sleep(SETTLE_S)
        found = _look_at_all(found)
    return _with_moves(_with_leader(found))


def _look_at_all(known: Facts) -> Facts:
    """Return what the brokers say now; those that hang are not waited for once more."""
    with ThreadPoolExecutor(AT_ONCE_MAX) as pool:
        asked = pool.map(
            lambda each: each if each.hangs else look_at_broker(each.id, each.address),
            known.brokers,
        )
        brokers = list(asked)
        admins = find_admin_ports(brokers)
        brokers = list(pool.map(lambda each: look_behind(each, admins.get(each.id, "")), brokers))
    views = [each.view for each in brokers if each.view is not None]
    return replace(known, view=most_agreed(views or [known.view]), brokers=brokers)


def _with_leader(found: Facts) -> Facts:
    """Ask those that name themselves whether that is so, where nothing else tells."""
    if not found.has_no_controller:
        return found
    with ThreadPoolExecutor(AT_ONCE_MAX) as pool:
        return replace(found, brokers=list(pool.map(_ask_for_leader, found.brokers)))


def _ask_for_leader(broker: BrokerFacts) -> BrokerFacts:
    if broker.controller != broker.id or broker.admin is not None:
        return broker
    request = DescribeQuorumRequest(topics=[TopicData(METADATA_TOPIC, [PartitionData(0)])])
    try:
        with Exchange(*_split(broker.address), LEADER_TIMEOUT_S) as exchange:
            answer = exchange.ask(ApiKey.DESCRIBE_QUORUM, _QUORUM, request)
    except Trouble:
        return broker
    is_hidden = answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    parts = [each for topic in answer.topics for each in topic.partitions]
    is_named = any(not each.error_code and each.leader_id >= 0 for each in parts)
    return replace(broker, may_be_led=is_hidden or is_named)


def _with_moves(found: Facts) -> Facts:
    unseen = [] if found.names_all else [_HIDDEN]
    if found.has_no_controller:
        unseen.append("which replicas move: only a leading controller knows")
        return replace(found, unseen=unseen, has_unseen_moves=True)
    moves = _moves(found.brokers, unseen)
    return replace(found, moves=moves or {}, unseen=unseen, has_unseen_moves=moves is None)


def look_closely(bootstrap: str, *, transaction_s: float) -> Facts:
    """Return the same with topics' options, groups that are behind and long transactions.

    Raises:
        CommandFailed: no broker answers.
    """
    found = look(bootstrap)
    if _disagree(found):
        time.sleep(AGAIN_S)
        found = _with_moves(_with_leader(_look_at_all(found)))
    alive = [each for each in found.brokers if each.problem is None]
    unseen = list(found.unseen)
    brokers = []
    for broker in found.brokers:
        if broker.problem is None:
            try:
                broker = replace(broker, hanging=_hanging(broker.address, transaction_s))
            except Trouble as error:
                unseen.append(f"transactions of broker {broker.id}: {why(error)}")
        brokers.append(broker)
    topics: dict[str, dict[str, str]] = {}
    groups: list[GroupFacts] = []
    if alive:
        try:
            topics = _topic_options(alive[0].address, found.view, unseen)
        except Trouble as error:
            unseen.append(f"options of topics: {why(error)}")
        limit_s = GROUPS_S if not found.dead_brokers else GROUPS_HURT_S
        groups = _groups_in_time(found.alive_addresses, unseen, limit_s)
    quorum = _quorum(found, unseen)
    unseen += of_brokers(
        "the clock and limits",
        {e.id: e.admin_problem or "no admin port" for e in alive if e.admin is None},
    )
    unseen += of_brokers(
        "the disk space", {each.id: each.disk_problem for each in alive if each.disk_problem}
    )
    # One that has just started may not have got all metadata yet: the controller has.
    first = sorted(alive, key=lambda each: (each.id != found.controller, each.id))
    recoveries = read_recoveries([(each.id, *_split(each.address)) for each in first])
    return replace(
        found,
        brokers=brokers,
        topics=topics,
        groups=groups,
        queues=look_at_queues(found, unseen),
        unseen=unseen,
        recoveries=() if recoveries is None else recoveries.recoveries,
        has_unseen_recoveries=recoveries is None or recoveries.count > len(recoveries.recoveries),
        quorum=quorum,
    )


def _moves(brokers: Sequence[BrokerFacts], unseen: list[str]) -> Moves | None:
    alive = [each.address for each in brokers if each.problem is None]
    if not alive:
        return {}
    try:
        return read_moving(",".join(alive), MOVES_TIMEOUT_MS)
    except CommandFailed as failure:
        unseen.append(failure.message)
        return None


def _quorum(facts: Facts, unseen: list[str]) -> Quorum | None:
    """Ask the controller itself, or whoever else knows it: one that is cut off knows none."""
    if facts.has_no_controller:
        return None
    knowing = [each for each in facts.brokers if facts.led_by(each) is not None]
    knowing.sort(key=lambda e: (e.id != facts.controller, facts.led_by(e) != facts.controller))
    if not knowing:
        return None
    try:
        return read_quorum(",".join(each.address for each in knowing))
    except CommandFailed as failure:
        unseen.append(f"the controllers: {failure.message}")
        return None


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def _first_view(bootstrap: str) -> tuple[View, dict[int, str], bool]:
    """Return what the first broker that answers sees, and all brokers that are registered.

    The last is whether it names everything, and not only what rules allow this user to describe.

    All are asked at once, so that one that hangs delays nobody.
    """
    pool = ThreadPoolExecutor(AT_ONCE_MAX)
    asked = {pool.submit(_view_at, *each): each for each in parse_addresses(bootstrap)}
    refused = []
    failures: list[CommandFailed] = []
    try:
        for answer in as_completed(asked):
            try:
                return answer.result()
            except Trouble as error:
                host, port = asked[answer]
                refused.append(f"{host}:{port} ({why(error)})")
                failures += filter(None, [refusal_of(host, port, error)])
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    if failures:
        raise failures[0]
    raise CommandFailed(
        f"no broker answers at {', '.join(refused)}",
        hint="kafkaesque doctor --bootstrap-server HOST:PORT,... with more of the brokers",
        exit_code=UNREACHABLE,
    )


def _view_at(host: str, port: int) -> tuple[View, dict[int, str], bool]:
    with Exchange(host, port, ANSWER_TIMEOUT_S) as exchange:
        exchange.greet()
        registered, names_all = _registered(exchange)
        return _view(exchange), registered, names_all


def look_at_broker(number: int, address: str) -> BrokerFacts:
    """Return what one broker says; it may say nothing, or only a part."""
    try:
        exchange = Exchange(*_split(address), ANSWER_TIMEOUT_S)
    except OSError as error:
        return BrokerFacts(id=number, address=address, problem=why(error))
    try:
        with exchange:
            exchange.greet()
            options, refused = _options(exchange, _BROKER, [str(number)])
            disk, disk_problem = _disk(exchange)
            view = _view(exchange)
    except Trouble as error:
        hangs = isinstance(error, TimeoutError)
        return BrokerFacts(id=number, address=address, problem=why(error), hangs=hangs)
    found = BrokerFacts(
        id=number,
        address=address,
        view=view,
        options=options.get(str(number), {}),
        disk=disk,
        disk_problem=disk_problem,
    )
    if refused:
        reason = f"{NO_RULE} {on_cluster('describe-configs')}, which says where its admin port is"
        return replace(found, admin_problem=reason)
    admin = found.options.get("admin.listener", "")
    if not admin:
        return found
    try:
        return replace(found, admin=ask_admin(admin, number))
    except Forbidden as error:
        return replace(found, admin_problem=str(error))
    except OSError as error:
        return replace(found, admin_problem=f"{admin}: {why(error)}")


def find_admin_ports(brokers: Sequence[BrokerFacts]) -> dict[int, str]:
    """Return the admin ports of brokers whose Kafka ports do not answer, as others know them."""
    silent = {each.id for each in brokers if each.problem is not None}
    if silent:
        for admin in [each.options.get("admin.listener", "") for each in brokers if each.admin]:
            try:
                page = get_page(admin, "/brokers", _RegisteredBrokers)
            except (OSError, HTTPException, ValueError):
                continue
            if page is not None:
                return {each.id: each.admin for each in page.brokers if each.admin}
    return {}


def look_behind(broker: BrokerFacts, admin: str) -> BrokerFacts:
    """Return what a broker whose Kafka port is closed says at its admin port, if it does."""
    if broker.problem is None or broker.hangs or not admin:
        return broker
    try:
        found = ask_admin(admin, broker.id)
    except OSError as error:
        return replace(broker, admin_problem=f"{admin}: {why(error)}")
    return replace(broker, admin=found, options={"admin.listener": admin})


def _registered(exchange: Exchange) -> tuple[dict[int, str], bool]:
    """Return where all brokers are that are registered, up or not.

    With it comes whether the broker names everything.
    """
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=True, include_fenced_brokers=True
    )
    try:
        answer = exchange.ask(ApiKey.DESCRIBE_CLUSTER, _CLUSTER, request)
    except Trouble:
        return {}, True  # by a release that does not say so
    names_all = bool(answer.cluster_authorized_operations & 1 << Operation.DESCRIBE)
    return {each.broker_id: f"{each.host}:{each.port}" for each in answer.brokers}, names_all


def _view(exchange: Exchange) -> View:
    """Return what a broker sees: asked last, as one that is cut off closes after that."""
    alive = exchange.ask(ApiKey.DESCRIBE_CLUSTER, _ALIVE, DescribeClusterRequest())
    request = MetadataRequest(None, allow_auto_topic_creation=False)
    answer = exchange.ask(ApiKey.METADATA, _METADATA, request)
    return View(
        cluster_id=answer.cluster_id or "",
        controller=alive.controller_id,
        brokers={each.broker_id: f"{each.host}:{each.port}" for each in alive.brokers},
        partitions={
            PartitionName(topic.name or "", each.partition_index): PartitionFacts(
                leader=each.leader_id,
                epoch=each.leader_epoch,
                replicas=list(each.replica_nodes),
                in_sync=list(each.isr_nodes),
                offline=sorted(each.offline_replicas),
            )
            for topic in answer.topics
            for each in topic.partitions
        },
    )


def _options(
    exchange: Exchange, kind: int, names: Sequence[str]
) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Return the options in force by name, and the names whose options no rule allows to see."""
    resources = [DescribeConfigsResource(kind, name, None) for name in names]
    request = DescribeConfigsRequest(resources, False, False)
    answer = exchange.ask(ApiKey.DESCRIBE_CONFIGS, _CONFIGS, request)
    found: dict[str, dict[str, str]] = {}
    refused = []
    for result in answer.results:
        if result.error_code in _FORBIDDEN:
            refused.append(str(result.resource_name))
            continue
        values = {str(each.name): str(each.value or "") for each in result.configs}
        found[str(result.resource_name)] = values
    return found, sorted(refused)


def _topic_options(address: str, view: View, unseen: list[str]) -> dict[str, dict[str, str]]:
    host, _, port = address.rpartition(":")
    names = sorted({name.topic for name in view.partitions})
    found: dict[str, dict[str, str]] = {}
    hidden: list[str] = []
    with Exchange(host, int(port), ANSWER_TIMEOUT_S) as exchange:
        for first in range(0, len(names), TOPICS_PER_REQUEST):
            asked = names[first : first + TOPICS_PER_REQUEST]
            options, refused = _options(exchange, _TOPIC, asked)
            found |= options
            hidden += refused
    if hidden:
        unseen.append(f"options of {named(hidden)}: {NO_RULE} describe-configs on these topics")
    return found


def _disk(exchange: Exchange) -> tuple[Disk | None, str]:
    """Return the disk, or why it may not be looked at."""
    request = DescribeLogDirsRequest([])
    answer = exchange.ask(ApiKey.DESCRIBE_LOG_DIRS, _LOG_DIRS, request)
    if answer.error_code in _FORBIDDEN:
        return None, f"{NO_RULE} {on_cluster('describe')}"
    for each in answer.results:
        disk = Disk(
            directory=each.log_dir or "",
            total_bytes=each.total_bytes if each.total_bytes >= 0 else None,
            free_bytes=each.usable_bytes if each.usable_bytes >= 0 else None,
            has_failed=each.error_code != ErrorCode.NONE,
        )
        return disk, ""
    return None, ""


def _hanging(address: str, transaction_s: float) -> list[str]:
    """Return the transactional ids on a broker whose transactions are open for longer."""
    host, _, port = address.rpartition(":")
    request = ListTransactionsRequest([], [], int(transaction_s * 1000))
    with Exchange(host, int(port), ANSWER_TIMEOUT_S) as exchange:
        answer: Any = exchange.ask(ApiKey.LIST_TRANSACTIONS, _TRANSACTIONS, request)
    if answer.error_code:
        raise OSError(ErrorCode(answer.error_code).name)
    return sorted(str(each.transactional_id) for each in answer.transaction_states)


def _groups_in_time(bootstrap: str, unseen: list[str], limit_s: float) -> list[GroupFacts]:
    """Return the groups that are behind, as far as they were read in time."""
    found: list[GroupFacts] = []
    troubles: list[str] = []
    # The library's calls cannot be broken off: what takes longer ends with the program.
    reading = threading.Thread(
        target=_read_groups, args=(bootstrap, found, troubles), name="groups", daemon=True
    )
    reading.start()
    reading.join(limit_s)
    if reading.is_alive():
        unseen.append(f"some groups: their coordinators did not answer within {limit_s:g} s")
    unseen += list(troubles)
    return list(found)


def _read_groups(bootstrap: str, found: list[GroupFacts], unseen: list[str]) -> None:
    from kafkaesque.cli.consumer_lag import measure_lag
    from kafkaesque.cli.group_states import GroupKind, describe_group, list_groups
    from kafkaesque.cli.kafka import Connection

    try:
        connection = Connection(bootstrap)
        admin = connection.admin()
        listed = list_groups(bootstrap, unseen.append)
    except CommandFailed as failure:
        unseen.append(f"groups: {failure.message}")
        return
    # A sink's marker counts micro-batches: it is never behind, and nobody is to delete it.
    names = [each.group for each in listed if each.kind is GroupKind.CONSUMERS]
    if len(names) > GROUPS_MAX:
        unseen.append(f"{len(names) - GROUPS_MAX} of {len(names)} groups: there are too many")
    for name in names[:GROUPS_MAX]:
        try:
            group = describe_group(admin, name)
            if group is None:
                continue
            lag = measure_lag(connection, admin, group, committed_only=False)
        except CommandFailed as failure:
            unseen.append(f"group {name}: {failure.message}")
            continue
        if lag.messages:
            seconds = None if lag.time_ms is None else lag.time_ms / 1000
            found.append(
                GroupFacts(
                    name=name, messages=lag.messages, seconds=seconds, members=len(group.members)
                )
            )


def _disagree(facts: Facts) -> bool:
    seen = [
        (
            facts.led_by(broker),
            {name: each.leader for name, each in broker.view.partitions.items()},
        )
        for broker in facts.brokers
        if broker.view is not None
    ]
    return any(each != seen[0] for each in seen[1:])
