"""Which API needs which rights, at the wire: nothing without a rule, and all of it with the rules.

Groups 8, 9 and 12.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.access.rules import Effect
from kafkaesque.access.topic_permissions import TopicPermission
from kafkaesque.broker.listeners import AccessMode
from kafkaesque.broker.requests.access_commands import PutTopicPermission, RemoveTopicPermissions
from kafkaesque.chassis.rights import Rights
from kafkaesque.gateway.kafka.authorization import (
    ROWS,
    Need,
    make_guards,
)
from kafkaesque.gateway.kafka.guards import cluster as whole
from kafkaesque.gateway.kafka.guards import (
    configs,
    exchanges,
    groups,
    queues,
    share_groups,
    topics,
    transactions,
    transactions_of_queues,
)
from kafkaesque.gateway.kafka.handlers import HANDLERS
from kafkaesque.gateway.kafka.operation_bits import (
    CLUSTER_OPERATIONS,
    GROUP_OPERATIONS,
    TOPIC_OPERATIONS,
)
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api import SUPPORTED, ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.frames import read_response
from kafkaesque.protocols.kafka.messages.metadata_request import (
    MetadataRequest,
    MetadataRequestTopic,
)
from kafkaesque.protocols.kafka.messages.publish_messages_request import PublishMessagesRequest
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.named_requests import all_codes, named_request
from tests.unit.gateway_kafka.secured import (
    SECRET,
    SUPER,
    Client,
    add_user,
    allow,
    change,
    forget_rules,
    produce,
    produce_request,
)

T, O = ResourceType, Operation  # noqa: E741
FORBIDDEN = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.QUEUE_AUTHORIZATION_FAILED,
    ErrorCode.EXCHANGE_AUTHORIZATION_FAILED,
    ErrorCode.VHOST_AUTHORIZATION_FAILED,
}
#: One that exists and one that does not, equally long.
THERE, ABSENT = "there", "absen"
#: What is asked before the log-in, or by everybody.
FREE = {key for key in HANDLERS if not ROWS[key].needs} | {ApiKey.DESCRIBE_CLUSTER}
#: What shows those things that may be seen, and refuses nothing.
SHOWING = {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_EXCHANGES}
#: No error has a place in their oldest versions, or none is known there.
SILENT = {(ApiKey.DESCRIBE_LOG_DIRS, 1), (ApiKey.DESCRIBE_LOG_DIRS, 2)}
#: What is one's own needs no rule: see `test_delegation_tokens.py`.
OWN = {
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
NAMING = [key for key in sorted(HANDLERS) if key not in FREE and key not in OWN]


def name_of(key: int) -> str:
    return ApiKey(key).name


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """A broker with a topic and two users, of whom one may do everything."""
    found = LiveCluster(
        tmp_path_factory.mktemp("rights"),
        access=AccessMode.REQUIRED,
        secrets=[SECRET],
        super_users=[SUPER],
        options={"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1},
    )
    for name in ("root", "mia"):
        add_user(found, name)
    root = Client(found)
    root.log_in("root")
    creation = named_request(ApiKey.CREATE_TOPICS, 7, THERE)
    creation.validate_only = False
    assert set(all_codes(root.ask(creation))) == {0}
    found.wait(lambda: found._is_led(THERE), "the topic is led")
    assert set(all_codes(root.ask(named_request(ApiKey.CREATE_QUEUE, 0, THERE)))) == {0}
    yield found
    found.close()


@pytest.fixture
def mia(cluster: LiveCluster) -> Iterator[Client]:
    """Somebody for whom there is no rule, before and after."""
    client = Client(cluster)
    client.log_in("mia")
    yield client
    client.close()
    forget_rules(cluster, "mia")


# -- the table


def test_each_api_that_is_handled_has_a_row_and_no_other() -> None:
    assert set(ROWS) == set(HANDLERS)


def test_an_api_without_a_row_stops_the_start() -> None:
    with pytest.raises(InvariantBroken, match="no row"):
        make_guards([*HANDLERS, 71])


def test_rights_to_single_resources_without_a_guard_stop_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = ROWS[ApiKey.HEARTBEAT]._replace(guard="")
    monkeypatch.setitem(ROWS, ApiKey.HEARTBEAT, row)
    with pytest.raises(InvariantBroken, match="has no guard"):
        make_guards(HANDLERS)


def test_every_guard_that_a_row_names_is_there() -> None:
    modules = {
        "cluster": whole,
        "configs": configs,
        "exchanges": exchanges,
        "groups": groups,
        "queues": queues,
        "share_groups": share_groups,
        "topics": topics,
        "transactions": transactions,
        "transactions_of_queues": transactions_of_queues,
    }
    for key, row in ROWS.items():
        if row.guard:
            module, _, function = row.guard.partition(":")
            assert callable(getattr(modules[module], function)), name_of(key)


# -- nothing without a rule


@pytest.mark.parametrize("key", NAMING, ids=name_of)
def test_nothing_is_allowed_without_a_rule(cluster: LiveCluster, mia: Client, key: int) -> None:
    versions = SUPPORTED[key]
    for version in range(versions.first, versions.last + 1):
        if (key, version) in SILENT:
            continue
        if key in (ApiKey.PRODUCE, ApiKey.FETCH) and version >= 13:
            continue  # By id: see below.
        if key in (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH) and version >= 10:
            continue
        answer = mia.ask(named_request(key, version, THERE), version)
        found = set(all_codes(answer)) - {0}
        if key in SHOWING:
            assert not found
        else:
            assert found, f"version {version}: {answer}"
            assert found <= FORBIDDEN, f"version {version}: {answer}"


@pytest.mark.parametrize("key", NAMING, ids=name_of)
def test_what_is_forbidden_and_what_is_not_there_look_alike(
    cluster: LiveCluster, mia: Client, key: int
) -> None:
    version = SUPPORTED[key].last
    if key in (ApiKey.PRODUCE, ApiKey.FETCH):
        version = 12
    answers = []
    for name in (THERE, ABSENT):
        request = named_request(key, version, name)
        if key == ApiKey.FETCH:
            request.session_epoch = -1  # A session's id is drawn.
        mia.request(request, version)
        # All but the correlation id.
        answers.append(mia.receive()[4:].replace(ABSENT.encode(), THERE.encode()))
    assert answers[0] == answers[1]


def test_listing_shows_nothing_that_is_forbidden(cluster: LiveCluster, mia: Client) -> None:
    root = Client(cluster)
    root.log_in("root")
    joined = named_request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, THERE)
    joined.group_id = "hidden"
    assert root.ask(joined).error_code in (0, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert mia.ask(named_request(ApiKey.LIST_GROUPS, 5, "")).groups == []
    assert mia.ask(named_request(ApiKey.LIST_TRANSACTIONS, 2, "")).transaction_states == []
    assert mia.ask(MetadataRequest(topics=None)).topics == []
    assert THERE in [topic.name for topic in root.ask(MetadataRequest(topics=None)).topics]


# -- everything with the rules of the table


@pytest.mark.parametrize("key", NAMING, ids=name_of)
def test_the_needs_of_the_table_are_enough(
    cluster: LiveCluster, mia: Client, key: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if key in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH):
        versions = [9]
    elif key in (ApiKey.DELETE_TOPICS, ApiKey.DELETE_QUEUE):
        versions = []  # See below: it would be gone.
    else:
        versions = [SUPPORTED[key].first, SUPPORTED[key].last]
    asked: set[Need] = set()
    may = Rights.may

    def note(self: Rights, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        asked.add(Need(operation, resource_type))
        return may(self, operation, resource_type, name)

    for need in ROWS[key].needs:
        name = CLUSTER_NAME if need.resource_type is T.CLUSTER else THERE
        allow(cluster, "mia", *need, name)
    monkeypatch.setattr(Rights, "may", note)
    for version in versions:
        answer = mia.ask(named_request(key, version, THERE), version)
        assert not set(all_codes(answer)) & FORBIDDEN, f"version {version}: {answer}"
    assert asked <= set(ROWS[key].needs)


@pytest.mark.parametrize("key", NAMING, ids=name_of)
def test_a_deny_takes_each_need_away(cluster: LiveCluster, mia: Client, key: int) -> None:
    allow(cluster, "mia", O.ALL, T.TOPIC, "*")
    allow(cluster, "mia", O.ALL, T.GROUP, "*")
    for kind in (T.QUEUE, T.EXCHANGE, T.VHOST):
        allow(cluster, "mia", O.ALL, kind, "*")
    allow(cluster, "mia", O.ALL, T.TRANSACTIONAL_ID, "*")
    allow(cluster, "mia", O.ALL, T.CLUSTER, CLUSTER_NAME)
    for kind in {need.resource_type for need in ROWS[key].needs}:
        name = CLUSTER_NAME if kind is T.CLUSTER else THERE
        allow(cluster, "mia", O.ALL, kind, name, effect=Effect.DENY)
    version = 9 if key in (ApiKey.PRODUCE, ApiKey.FETCH) else SUPPORTED[key].first
    if (key, version) in SILENT:
        version = SUPPORTED[key].last
    answer = mia.ask(named_request(key, version, THERE), version)
    if key not in SHOWING:
        assert set(all_codes(answer)) & FORBIDDEN


# -- bits


def test_authorized_operations_are_those_of_the_rules(cluster: LiveCluster, mia: Client) -> None:
    allow(cluster, "mia", O.READ, T.TOPIC, THERE)
    allow(cluster, "mia", O.READ, T.GROUP, THERE)
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=THERE)],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    answer = mia.ask(request, 10)
    assert answer.topics[0].topic_authorized_operations == 1 << O.READ | 1 << O.DESCRIBE
    assert answer.cluster_authorized_operations == 0
    # Whoever may not describe the cluster is told nothing of it.
    allow(cluster, "mia", O.CREATE, T.CLUSTER, CLUSTER_NAME)
    assert mia.ask(request, 10).cluster_authorized_operations == 0
    allow(cluster, "mia", O.ALTER, T.CLUSTER, CLUSTER_NAME)
    bits = 1 << O.CREATE | 1 << O.ALTER | 1 << O.DESCRIBE
    assert mia.ask(request, 10).cluster_authorized_operations == bits
    describe = named_request(ApiKey.DESCRIBE_CLUSTER, 2, "")
    describe.include_cluster_authorized_operations = True
    assert mia.ask(describe).cluster_authorized_operations == bits
    pages = named_request(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, THERE)
    (topic,) = mia.ask(pages).topics
    assert topic.topic_authorized_operations == 1 << O.READ | 1 << O.DESCRIBE
    root = Client(cluster)
    root.log_in("root")
    answer = root.ask(request, 10)
    assert answer.topics[0].topic_authorized_operations == TOPIC_OPERATIONS
    assert answer.cluster_authorized_operations == CLUSTER_OPERATIONS
    groups_asked = named_request(ApiKey.DESCRIBE_GROUPS, 5, THERE)
    groups_asked.include_authorized_operations = True
    (group,) = mia.ask(groups_asked, 5).groups
    assert group.authorized_operations == 1 << O.READ | 1 << O.DESCRIBE
    (group,) = root.ask(groups_asked, 5).groups
    assert group.authorized_operations == GROUP_OPERATIONS


# -- metadata


def test_metadata_shows_some_of_all_topics_and_is_kept_for_nobody_else(
    cluster: LiveCluster, mia: Client
) -> None:
    root, everything = Client(cluster), MetadataRequest(topics=None)
    root.log_in("root")
    for _ in range(2):
        assert THERE in [each.name for each in root.ask(everything).topics]
        assert mia.ask(everything).topics == []
    allow(cluster, "mia", O.WRITE, T.TOPIC, "the*")
    assert [each.name for each in mia.ask(everything).topics] == [THERE]
    forget_rules(cluster, "mia")
    assert mia.ask(everything).topics == []


def test_a_topic_comes_into_being_only_for_those_who_may_create_it(
    cluster: LiveCluster, mia: Client
) -> None:
    allow(cluster, "mia", O.DESCRIBE, T.TOPIC, "new")
    request = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
    (topic,) = mia.ask(request).topics
    assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    cluster.run_for(0.2)
    assert "new" not in cluster.broker.state.topics
    allow(cluster, "mia", O.CREATE, T.TOPIC, "new")
    assert mia.ask(request).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.wait(lambda: "new" in cluster.broker.state.topics, "it is created")


# -- internal topics, and names that are none of a client's business


INTERNAL = ("__consumer_offsets", "__transaction_state")


def test_a_rule_for_any_name_does_not_reach_internal_topics(
    cluster: LiveCluster, mia: Client
) -> None:
    for name in ("*", "_*", "__*"):
        allow(cluster, "mia", O.ALL, T.TOPIC, name)
    for client in (mia, admin_client(cluster)):
        for name in INTERNAL:
            assert produce(client, name) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            fetch = named_request(ApiKey.FETCH, 12, name)
            assert ErrorCode.TOPIC_AUTHORIZATION_FAILED in all_codes(client.ask(fetch, 12))
        assert not {each.name for each in client.ask(MetadataRequest(topics=None)).topics} & {
            *INTERNAL
        }
    assert produce(mia, THERE) == 0


def admin_client(cluster: LiveCluster) -> Client:
    """A client with the id that Apache Kafka lets write to internal topics."""
    client = Client(cluster, client_id="__admin_client")
    client.log_in("mia")
    return client


def test_nobody_writes_to_internal_topics_whatever_the_rules_say(
    cluster: LiveCluster, mia: Client
) -> None:
    for name in INTERNAL:
        allow(cluster, "mia", O.ALL, T.TOPIC, name)
        # Whether it is there already or not.
        assert produce(mia, name) == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert produce(admin_client(cluster), name) == ErrorCode.INVALID_TOPIC_EXCEPTION


# -- exchanges


def test_a_message_has_a_key_that_a_topic_permission_fits(
    cluster: LiveCluster, mia: Client
) -> None:
    allow(cluster, "mia", O.WRITE, T.EXCHANGE, "amq.topic")
    limit = TopicPermission(user="mia", vhost="/", exchange="amq.topic", write="^{username}")
    change(cluster, PutTopicPermission(permission=limit))

    def publish(*keys: str) -> Any:
        records = encode_batch([Record(at, 0, None, b"x", ()) for at in range(len(keys))])
        return mia.ask(PublishMessagesRequest("/", "amq.topic", list(keys), records, 5_000))

    answer = publish("mia.1", "tom.1")
    assert answer.error_code == ErrorCode.EXCHANGE_AUTHORIZATION_FAILED
    assert "write access to topic 'tom.1'" in answer.error_message
    answer = publish("mia.1", "mia.2")
    assert (answer.error_code, [each.error_code for each in answer.messages]) == (0, [0, 0])
    change(cluster, RemoveTopicPermissions(user="mia", vhost="/"))
    assert publish("tom.1").error_code == 0


# -- Produce


def test_a_producer_needs_its_transactional_id_as_well(cluster: LiveCluster, mia: Client) -> None:
    allow(cluster, "mia", O.WRITE, T.TOPIC, THERE)
    code = produce(mia, THERE, transactional_id="another's")
    assert code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    allow(cluster, "mia", O.WRITE, T.TRANSACTIONAL_ID, "another's")
    assert produce(mia, THERE, transactional_id="another's") == 0


def test_a_producer_that_wants_no_answer_is_cut_off(cluster: LiveCluster, mia: Client) -> None:
    before = cluster.partition(THERE).high_watermark
    mia.request(produce_request(THERE, acks=0), 9)
    assert mia.is_closed()
    assert cluster.partition(THERE).high_watermark == before


def test_of_several_topics_the_allowed_ones_are_written_to(
    cluster: LiveCluster, mia: Client
) -> None:
    allow(cluster, "mia", O.WRITE, T.TOPIC, THERE)
    request = produce_request(THERE)
    request.topic_data = [*produce_request("other").topic_data, *request.topic_data]
    answer = mia.ask(request, 9)
    found = {each.name: each.partition_responses[0].error_code for each in answer.responses}
    assert found == {"other": ErrorCode.TOPIC_AUTHORIZATION_FAILED, THERE: 0}


def test_a_topic_id_gives_no_right(cluster: LiveCluster, mia: Client) -> None:
    topic_id = cluster.broker.state.topics[THERE].topic_id
    request = named_request(ApiKey.FETCH, 13, "")
    request.topics[0].topic_id = topic_id
    answer = mia.ask(request, 13)
    assert all_codes(answer) == [0, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)])
    (topic,) = mia.ask(by_id).topics
    assert (topic.error_code, topic.name) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    produced = produce_request(THERE)
    produced.topic_data[0].topic_id = topic_id
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED in all_codes(mia.ask(produced, 13))
    deletion = named_request(ApiKey.DELETE_TOPICS, 6, "")
    deletion.topics[0].name, deletion.topics[0].topic_id = None, topic_id
    (deleted,) = mia.ask(deletion).responses
    assert (deleted.error_code, deleted.name) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    allow(cluster, "mia", O.READ, T.TOPIC, THERE)
    assert not set(all_codes(mia.ask(request, 13))) - {0}
    for key in (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH):
        allow(cluster, "mia", O.READ, T.GROUP, THERE)
        forbidden = named_request(key, 10, THERE)
        named = forbidden.topics if key == ApiKey.OFFSET_COMMIT else forbidden.groups[0].topics
        named[0].topic_id = topic_id
        allow(cluster, "mia", O.ALL, T.TOPIC, THERE, effect=Effect.DENY)
        assert ErrorCode.TOPIC_AUTHORIZATION_FAILED in all_codes(mia.ask(forbidden, 10))
        forget_rules(cluster, "mia")


# -- Fetch


def test_saying_to_be_a_broker_gives_no_right(cluster: LiveCluster, mia: Client) -> None:
    request = named_request(ApiKey.FETCH, 12, THERE)
    request.replica_id = 1
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED in all_codes(mia.ask(request, 12))
    offsets = named_request(ApiKey.LIST_OFFSETS, 9, THERE)
    offsets.replica_id = 1
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED in all_codes(mia.ask(offsets, 9))


def test_a_session_is_for_its_user_alone_and_asked_for_each_time(
    cluster: LiveCluster, mia: Client
) -> None:
    allow(cluster, "mia", O.READ, T.TOPIC, THERE)
    opened = mia.ask(named_request(ApiKey.FETCH, 12, THERE), 12)
    assert opened.session_id > 0
    following = named_request(ApiKey.FETCH, 12, THERE)
    following.topics, following.session_id = [], opened.session_id
    following.session_epoch = 1
    root = Client(cluster)
    root.log_in("root")
    stolen = root.ask(following, 12)
    assert stolen.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    closing = named_request(ApiKey.FETCH, 12, THERE)
    closing.topics, closing.session_id, closing.session_epoch = [], opened.session_id, -1
    root.ask(closing, 12)
    assert mia.ask(following, 12).error_code == 0
    forget_rules(cluster, "mia")
    following.session_epoch = 2
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED in all_codes(mia.ask(following, 12))


def test_a_fetch_that_waits_gets_nothing_once_its_rule_is_gone(
    cluster: LiveCluster, mia: Client
) -> None:
    allow(cluster, "mia", O.READ, T.TOPIC, THERE)
    request = named_request(ApiKey.FETCH, 12, THERE)
    request.topics[0].partitions[0].fetch_offset = cluster.partition(THERE).high_watermark
    request.max_wait_ms, request.min_bytes = 20_000, 1
    mia.request(request, 12)
    cluster.run_for(0.1)
    forget_rules(cluster, "mia")
    root = Client(cluster)
    root.log_in("root")
    assert produce(root, THERE) == 0
    answer = read_response(memoryview(mia.receive()), ApiKey.FETCH, 12)[1]
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED in all_codes(answer)


# -- producers' ids, and deletion


def test_an_idempotent_producer_may_write_to_some_topic(cluster: LiveCluster, mia: Client) -> None:
    request = named_request(ApiKey.INIT_PRODUCER_ID, 5, "")
    request.transactional_id = None
    assert mia.ask(request).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    allow(cluster, "mia", O.WRITE, T.TOPIC, "some-*")
    assert mia.ask(request).error_code == 0


def test_a_topic_is_deleted_by_whoever_may(cluster: LiveCluster, mia: Client) -> None:
    allow(cluster, "mia", O.CREATE, T.TOPIC, "brief")
    allow(cluster, "mia", O.DELETE, T.TOPIC, "brief")
    creation = named_request(ApiKey.CREATE_TOPICS, 7, "brief")
    creation.validate_only = False
    (created,) = mia.ask(creation).topics
    assert created.error_code == 0
    # Created, and its options are not shown.
    assert created.topic_config_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert created.configs is None
    (deleted,) = mia.ask(named_request(ApiKey.DELETE_TOPICS, 6, "brief")).responses
    assert deleted.error_code == 0


def test_whoever_may_delete_and_is_denied_describing_deletes_nothing(
    cluster: LiveCluster, mia: Client
) -> None:
    allow(cluster, "mia", O.DELETE, T.TOPIC, THERE)
    allow(cluster, "mia", O.DESCRIBE, T.TOPIC, THERE, effect=Effect.DENY)
    (refused,) = mia.ask(named_request(ApiKey.DELETE_TOPICS, 6, THERE)).responses
    assert refused.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


# -- groups and transactions, and the topics in them


def ask_root(cluster: LiveCluster, request: Any, version: int | None = None) -> Any:
    """Returns what somebody is answered who may do everything, when nothing is loading any more."""
    passing = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    root = Client(cluster)
    root.log_in("root")
    for _ in range(500):
        answer = root.ask(request, version)
        if not passing & set(all_codes(answer)):
            break
        cluster.run_for(0.01)
    root.close()
    return answer


def test_a_member_names_no_topic_that_it_may_not_describe(
    cluster: LiveCluster, mia: Client
) -> None:
    allow(cluster, "mia", O.READ, T.GROUP, "fresh")
    request = named_request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, THERE)
    request.group_id = "fresh"
    assert mia.ask(request).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    allow(cluster, "mia", O.DESCRIBE, T.TOPIC, THERE)
    assert mia.ask(request).error_code not in FORBIDDEN


def test_a_group_with_topics_that_may_not_be_described_is_not_shown(
    cluster: LiveCluster, mia: Client
) -> None:
    request = named_request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, THERE)
    request.group_id = "shown"
    assert ask_root(cluster, request).error_code == 0
    allow(cluster, "mia", O.DESCRIBE, T.GROUP, "shown")
    describe = named_request(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, "shown")
    (hidden,) = mia.ask(describe).groups
    assert (hidden.error_code, list(hidden.members)) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
    allow(cluster, "mia", O.DESCRIBE, T.TOPIC, THERE)
    (shown,) = mia.ask(describe).groups
    assert (shown.error_code, len(shown.members)) == (0, 1)


@pytest.mark.parametrize("version", [7, 9, 10])
def test_of_all_offsets_those_of_topics_that_may_be_described_are_shown(
    cluster: LiveCluster, mia: Client, version: int
) -> None:
    commit = named_request(ApiKey.OFFSET_COMMIT, 9, THERE)
    commit.group_id = "offsets"
    assert set(all_codes(ask_root(cluster, commit, 9))) == {0}
    allow(cluster, "mia", O.DESCRIBE, T.GROUP, "offsets")
    request = named_request(ApiKey.OFFSET_FETCH, version, "offsets")
    if version >= 8:
        request.groups[0].topics = None
    else:
        request.topics = None

    def topics_shown() -> list[Any]:
        answer = mia.ask(request, version)
        assert set(all_codes(answer)) == {0}
        return list(answer.topics if version < 8 else answer.groups[0].topics)

    assert topics_shown() == []
    allow(cluster, "mia", O.DESCRIBE, T.TOPIC, THERE)
    assert len(topics_shown()) == 1


def test_of_a_transaction_the_topics_that_may_be_described_are_shown(
    cluster: LiveCluster, mia: Client
) -> None:
    begun = ask_root(cluster, named_request(ApiKey.INIT_PRODUCER_ID, 4, "billing"), 4)
    assert begun.error_code == 0
    adding = named_request(ApiKey.ADD_PARTITIONS_TO_TXN, 3, THERE)
    adding.v3_and_below_transactional_id = "billing"
    adding.v3_and_below_producer_id = begun.producer_id
    adding.v3_and_below_producer_epoch = begun.producer_epoch
    assert set(all_codes(ask_root(cluster, adding, 3))) == {0}
    allow(cluster, "mia", O.DESCRIBE, T.TRANSACTIONAL_ID, "billing")
    describe = named_request(ApiKey.DESCRIBE_TRANSACTIONS, 0, "billing")
    (state,) = mia.ask(describe).transaction_states
    assert (state.error_code, state.transaction_state, state.topics) == (0, "Ongoing", [])
    allow(cluster, "mia", O.DESCRIBE, T.TOPIC, THERE)
    (state,) = mia.ask(describe).transaction_states
    assert [each.topic for each in state.topics] == [THERE]
    ending = named_request(ApiKey.END_TXN, 3, "billing")
    ending.producer_id, ending.producer_epoch = begun.producer_id, begun.producer_epoch
    ask_root(cluster, ending, 3)
