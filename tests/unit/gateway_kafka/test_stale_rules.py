"""Brokers whose rules are old: whom they let in, and what the controller makes of their word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from kafkaesque.access.credentials import CredentialId
from kafkaesque.access.delegation_tokens import (
    Requester,
    TokenConfig,
    TokenRandom,
    make_delegation_token,
)
from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.access.principals import Principal, User
from kafkaesque.access.roles import Role
from kafkaesque.access.sealed import WrappedKey, topic_key_name
from kafkaesque.access.secret import Secret
from kafkaesque.access.topic_permissions import TopicPermission
from kafkaesque.broker.listeners import AccessMode
from kafkaesque.broker.metadata.change_rights import has_rule
from kafkaesque.broker.options.groups import DEAD_LETTER_TOPIC
from kafkaesque.broker.requests.access_commands import (
    AddRules,
    ExtendToken,
    PutCredential,
    PutKey,
    PutRole,
    PutTopicPermission,
    PutUser,
    RemoveCredential,
    RemoveKey,
    RemoveRules,
    RemoveTopicPermissions,
)
from kafkaesque.broker.requests.client_command import ClientCommand, OnBehalfOf
from kafkaesque.broker.requests.commands import (
    AskElection,
    AskMoves,
    ChangeConfig,
    ChangeGroupConfig,
    ChangeQuotas,
    ConfigChange,
    ControllerCommand,
    CreatePartitions,
    CreateTopic,
    DecideRecovery,
    DeleteTopic,
    MoveReplicas,
    RaiseFeature,
    RemoveBroker,
    TopicResult,
)
from kafkaesque.broker.requests.exchange_commands import BindDestination, DeclareExchange
from kafkaesque.chassis.rights import Rights
from kafkaesque.model.errors import (
    ClusterNotAuthorized,
    ExchangeNotAuthorized,
    GroupNotAuthorized,
    NotAuthorized,
    QueueNotAuthorized,
    RequestRefused,
    TokenNotAuthorized,
    TopicNotAuthorized,
)
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.create_acls_request import AclCreation, CreateAclsRequest
from kafkaesque.protocols.kafka.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kafkaesque.protocols.kafka.messages.elect_leaders_request import (
    ElectLeadersRequest,
    TopicPartitions,
)
from kafkaesque.protocols.kafka.messages.metadata_request import MetadataRequest
from kafkaesque.routing.exchanges.kinds import ALTERNATE, LONGEST_MATCH
from kafkaesque.routing.exchanges.records import Destination
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.secured import (
    SECRET,
    SUPER,
    Client,
    Closed,
    add_user,
    allow,
    change,
    forget_rules,
)

HOST = "127.0.0.1"
STALE_MS = 1_500


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    found = LiveCluster(
        tmp_path_factory.mktemp("judged-twice"),
        access=AccessMode.REQUIRED,
        secrets=[SECRET],
        super_users=[SUPER],
    )
    for user in ("root", "alice"):
        add_user(found, user)
    yield found
    found.close()


def submit(cluster: LiveCluster, command: Any) -> Any:
    outcomes: list[Any] = []
    cluster.nodes[1].broker.doors.access.submit(command, 60_000, outcomes.append)
    cluster.wait(lambda: bool(outcomes), "the controller has answered")
    return outcomes[0]


def of(who: str, kind: type[ClientCommand], **fields: Any) -> ClientCommand:
    return kind(on_behalf_of=OnBehalfOf(f"User:{who}", HOST), **fields)


KEY = WrappedKey(
    name=topic_key_name(b"t" * 16), version=1, keeper="file", keeper_key="k", wrapped=b"w"
)
PERMISSION = TopicPermission(user="alice", vhost="shop", exchange="amq.topic")
SET = [ConfigChange(name="retention.ms", value="1000")]


@pytest.mark.parametrize(
    ("kind", "fields", "refusal"),
    [
        (CreateTopic, {"name": "t"}, TopicNotAuthorized),
        (DeleteTopic, {"name": "t"}, TopicNotAuthorized),
        (CreatePartitions, {"name": "t", "count": 2}, TopicNotAuthorized),
        (ChangeConfig, {"topic": "t", "changes": SET}, TopicNotAuthorized),
        (ChangeConfig, {"changes": SET}, ClusterNotAuthorized),
        (ChangeGroupConfig, {"group": "g", "changes": SET}, GroupNotAuthorized),
        (ChangeQuotas, {"entity": (("user", "a"),), "changes": []}, ClusterNotAuthorized),
        (MoveReplicas, {"partitions": []}, ClusterNotAuthorized),
        (AskMoves, {}, ClusterNotAuthorized),
        (RaiseFeature, {"name": "metadata", "level": 1}, ClusterNotAuthorized),
        (RemoveBroker, {"node": 9}, ClusterNotAuthorized),
        (PutUser, {"user": User(name="mallory")}, ClusterNotAuthorized),
        (PutRole, {"role": Role(name="ops")}, ClusterNotAuthorized),
        (AddRules, {"rules": ()}, ClusterNotAuthorized),
        (PutTopicPermission, {"permission": PERMISSION}, ClusterNotAuthorized),
        (RemoveTopicPermissions, {"user": "alice", "vhost": "shop"}, ClusterNotAuthorized),
        (RemoveCredential, {"id": "scram-sha-256/root"}, ClusterNotAuthorized),
        (PutKey, {"key": KEY}, ClusterNotAuthorized),
        (RemoveKey, {"name": KEY.name, "version": 9}, ClusterNotAuthorized),
        (AskElection, {"group": 999, "after": 0}, ClusterNotAuthorized),
        (
            DecideRecovery,
            {"group": 999, "formation": 1, "may_be_unclean": True},
            ClusterNotAuthorized,
        ),
    ],
)
def test_the_controller_refuses_what_no_rule_allows(
    cluster: LiveCluster,
    kind: type[ClientCommand],
    fields: dict[str, Any],
    refusal: type[NotAuthorized],
) -> None:
    assert type(submit(cluster, of("alice", kind, **fields))) is refusal
    assert not isinstance(submit(cluster, of("root", kind, **fields)), NotAuthorized)


def test_every_command_of_a_client_has_a_row() -> None:
    kinds = {each for each in get_args(ControllerCommand) if issubclass(each, ClientCommand)}
    assert {CreateTopic, RemoveRules, PutCredential} <= kinds
    assert all(has_rule(each) for each in kinds)


def test_who_says_where_a_share_groups_dead_letters_go_needs_to_write_there(
    cluster: LiveCluster,
) -> None:
    def send_to(topic: str, **more: Any) -> Any:
        change = ConfigChange(name=DEAD_LETTER_TOPIC, value=topic)
        command = of("alice", ChangeGroupConfig, group="alices", changes=[change], **more)
        return submit(cluster, command)

    allow(cluster, "alice", Operation.ALTER_CONFIGS, ResourceType.GROUP, "alices")
    assert isinstance(send_to("salaries"), TopicNotAuthorized)
    allow(cluster, "alice", Operation.WRITE, ResourceType.TOPIC, "dead")
    assert not isinstance(send_to("dead"), RequestRefused)
    assert isinstance(send_to("salaries", replace_all=True), TopicNotAuthorized)
    forget_rules(cluster, "alice")
    # What is so already may stay, though the rule is gone; and to end it needs none.
    allow(cluster, "alice", Operation.ALTER_CONFIGS, ResourceType.GROUP, "alices")
    assert not isinstance(send_to("dead", replace_all=True), RequestRefused)
    assert not isinstance(send_to(""), RequestRefused)
    forget_rules(cluster, "alice")


def test_a_topic_needs_its_own_rule(cluster: LiveCluster) -> None:
    allow(cluster, "alice", Operation.CREATE, ResourceType.TOPIC, "alices-*")
    created = submit(cluster, of("alice", CreateTopic, name="alices-own"))
    assert isinstance(created, TopicResult)
    forbidden = submit(
        cluster, of("alice", DeleteTopic, name=None, topic_id=bytes(created.topic_id))
    )
    assert isinstance(forbidden, TopicNotAuthorized)
    forget_rules(cluster, "alice")
    again = submit(cluster, of("alice", CreateTopic, name="alices-second"))
    assert isinstance(again, TopicNotAuthorized)


def test_an_alternate_exchange_is_one_that_one_may_write_to(cluster: LiveCluster) -> None:
    declaration = of(
        "alice",
        DeclareExchange,
        vhost="/",
        name="mine",
        type="direct",
        arguments={ALTERNATE: "others"},
    )
    for operation in (Operation.CREATE, Operation.READ):
        allow(cluster, "alice", operation, ResourceType.EXCHANGE, "mine")
    assert isinstance(submit(cluster, declaration), ExchangeNotAuthorized)
    allow(cluster, "alice", Operation.WRITE, ResourceType.EXCHANGE, "others")
    assert not isinstance(submit(cluster, declaration), Exception)
    forget_rules(cluster, "alice")


def test_a_binding_leads_where_one_may_write(cluster: LiveCluster) -> None:
    binding = of(
        "alice", BindDestination, vhost="/", source="amq.topic", destination=Destination("theirs")
    )
    assert isinstance(submit(cluster, binding), QueueNotAuthorized)
    allow(cluster, "alice", Operation.READ, ResourceType.EXCHANGE, "amq.topic")
    assert isinstance(submit(cluster, binding), QueueNotAuthorized)
    allow(cluster, "alice", Operation.WRITE, ResourceType.QUEUE, "theirs")
    assert not isinstance(submit(cluster, binding), NotAuthorized)
    forget_rules(cluster, "alice")


def test_a_binding_has_a_key_that_a_topic_permission_fits(cluster: LiveCluster) -> None:
    def binding(key: str, source: str = "amq.topic") -> ClientCommand:
        to = Destination("theirs")
        return of("alice", BindDestination, vhost="/", source=source, destination=to, key=key)

    for source in ("amq.topic", "amq.direct"):
        allow(cluster, "alice", Operation.READ, ResourceType.EXCHANGE, source)
        limit = TopicPermission(user="alice", vhost="/", exchange=source, read="^a")
        change(cluster, PutTopicPermission(permission=limit))
    allow(cluster, "alice", Operation.WRITE, ResourceType.QUEUE, "theirs")
    refused = submit(cluster, binding("#"))
    assert isinstance(refused, ExchangeNotAuthorized)
    assert "read access to topic '#' in exchange 'amq.topic'" in str(refused)
    assert not isinstance(submit(cluster, binding("a.#")), NotAuthorized)
    assert not isinstance(submit(cluster, binding("b", "amq.direct")), NotAuthorized)
    change(cluster, RemoveTopicPermissions(user="alice", vhost="/"))
    assert not isinstance(submit(cluster, binding("#")), NotAuthorized)
    forget_rules(cluster, "alice")


def test_a_longest_match_takes_messages_from_others_and_needs_write_on_the_exchange(
    cluster: LiveCluster,
) -> None:
    def binding(is_longest: bool) -> ClientCommand:
        return of(
            "alice",
            BindDestination,
            vhost="/",
            source="amq.topic",
            destination=Destination("theirs"),
            key="house.kitchen.#",
            arguments={LONGEST_MATCH: is_longest},
        )

    allow(cluster, "alice", Operation.READ, ResourceType.EXCHANGE, "amq.topic")
    allow(cluster, "alice", Operation.WRITE, ResourceType.QUEUE, "theirs")
    assert not isinstance(submit(cluster, binding(False)), NotAuthorized)
    assert isinstance(submit(cluster, binding(True)), ExchangeNotAuthorized)
    allow(cluster, "alice", Operation.WRITE, ResourceType.EXCHANGE, "amq.topic")
    assert not isinstance(submit(cluster, binding(True)), NotAuthorized)
    forget_rules(cluster, "alice")


def test_tokens_are_their_parties(cluster: LiveCluster) -> None:
    def token(owner: str, requester: str) -> Any:
        return make_delegation_token(
            Requester(principal=Principal(f"User:{requester}")),
            owner=Principal(f"User:{owner}"),
            renewers=(),
            lifetime_ms=-1,
            random=TokenRandom(
                token_id=CredentialId(f"{owner}-{requester}"),
                secret=Secret(f"{owner:>16}{requester:>16}".encode()),
                salt=b"0123456789abcdef",
            ),
            config=TokenConfig(),
            now_ms=cluster.nodes[1].world.env.clock.wall_ms(),
        )

    own = token("alice", "alice")
    for mine in (token("root", "alice"), token("root", "root")):
        refused = submit(cluster, of("alice", PutCredential, credential=mine))
        assert isinstance(refused, TokenNotAuthorized)
    put = of("alice", PutCredential, credential=own)
    assert not isinstance(submit(cluster, put), Exception)
    assert isinstance(submit(cluster, put), TokenNotAuthorized)
    extension = {"id": own.id, "expires_ms": own.expires_ms}
    assert isinstance(submit(cluster, of("bob", ExtendToken, **extension)), TokenNotAuthorized)
    assert isinstance(submit(cluster, of("bob", RemoveCredential, id=own.id)), TokenNotAuthorized)
    assert not isinstance(submit(cluster, of("alice", ExtendToken, **extension)), Exception)


def test_what_the_controller_refuses_is_answered_like_a_refusal(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(cluster)
    client.log_in("alice")
    # As on a broker that has not heard that something was taken away.
    monkeypatch.setattr(Rights, "may", lambda *_: True)
    rule = AclCreation(2, "t", 3, "User:alice", "*", 3, 3)
    (answer,) = client.ask(CreateAclsRequest([rule])).results
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    topics = client.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 10_000)).topics
    assert topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    client.close()


def test_an_unclean_election_is_judged_again_for_whom_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = LiveCluster(
        tmp_path, count=3, access=AccessMode.REQUIRED, secrets=[SECRET], super_users=[SUPER]
    )
    try:
        for user in ("alice", "root"):
            add_user(cluster, user)
        root, alice = Client(cluster), Client(cluster)
        root.log_in("root")
        alice.log_in("alice")
        alone = CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(0, [3])])
        assert not root.ask(CreateTopicsRequest([alone], 10_000)).topics[0].error_code
        cluster.nodes[3].stop(lambda: None)
        cluster.wait(lambda: cluster.nodes[3].is_stopped, "the only replica's broker is stopped")
        # As on a broker that has not heard that something was taken away.
        monkeypatch.setattr(Rights, "may", lambda *_: True)
        election = ElectLeadersRequest(1, [TopicPartitions("t", [0])], 30_000)
        (refused,) = alice.ask(election).replica_election_results[0].partition_result
        assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        # Of whoever may it is told what the planner makes of it.
        (told,) = root.ask(election).replica_election_results[0].partition_result
        assert told.error_code == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    finally:
        cluster.close()


# -- a broker that is cut off


def test_a_broker_without_a_controller_lets_nobody_in_and_sends_all_away(tmp_path: Path) -> None:
    cluster = LiveCluster(
        tmp_path,
        count=3,
        access=AccessMode.REQUIRED,
        secrets=[SECRET],
        super_users=[SUPER],
        options={"authorization.stale.ms.max": STALE_MS},
    )
    try:
        add_user(cluster, "alice")
        client = Client(cluster, node=3)
        client.log_in("alice")
        # With a controller this goes on for longer than the bound.
        access = cluster.nodes[3].broker.doors.access
        for _ in range(3):
            assert client.ask(MetadataRequest(topics=[])).brokers
        cluster.wait(lambda: not access.is_stale, "it knows the rules")
        for node in (1, 2):
            cluster.nodes[node].stop(lambda: None)
        cluster.wait(
            lambda: all(cluster.nodes[node].is_stopped for node in (1, 2)), "two are stopped"
        )
        assert client.is_closed(2 * STALE_MS / 1000)
        assert access.is_stale
        # Whatever asks for a right hears no, of an administrator as well.
        asked = (Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
        assert not access.decide(SUPER, HOST, *asked).allowed
        late = Client(cluster, node=3)
        with pytest.raises(Closed):
            late.log_in("alice")
        assert any("no controller has been heard" in each for each in cluster.reports)
    finally:
        cluster.close()
