"""Brokers whose clients log in, and clients of the wire that do so, or do worse."""

from __future__ import annotations

import asyncio
import os
import ssl
import struct
from collections.abc import Sequence
from typing import Any

from kafkaesque.access.acl_filters import ANY, AclFilter
from kafkaesque.access.operations import OWN_TYPES, Operation, ResourceType
from kafkaesque.access.principals import Principal, user_principal
from kafkaesque.access.rules import Effect, PatternKind, Rule
from kafkaesque.access.scram_client import ScramClient
from kafkaesque.access.scram_mechanisms import SCRAM_MECHANISMS
from kafkaesque.access.scram_verifiers import verifier_of_password
from kafkaesque.access.secret import Secret
from kafkaesque.broker.requests.access_commands import (
    AccessCommand,
    AddRules,
    PutCredential,
    RemoveRules,
)
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api import SUPPORTED
from kafkaesque.protocols.kafka.frames import read_response, write_request
from kafkaesque.protocols.kafka.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafkaesque.protocols.kafka.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kafkaesque.protocols.kafka.messages.sasl_handshake_request import SaslHandshakeRequest
from tests.unit.gateway_kafka.live import PATIENCE_S, LiveCluster, key_of

SECRET = b"a secret of the cluster, for tests"
SUPER = Principal("User:root")
PASSWORD = "a password"
SCRAM = "SCRAM-SHA-256"
_LENGTH = struct.Struct(">i")


class Closed(Exception):
    """The broker has hung up in place of an answer."""


class LoginRefused(Exception):
    """The broker has refused a log-in, with these words and this code."""

    def __init__(self, code: int, message: str | None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


class Client:
    """One connection."""

    def __init__(
        self,
        cluster: LiveCluster,
        *,
        node: int = 1,
        client_id: str = "test",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._cluster = cluster
        self._client_id = client_id
        self._count = 0
        address = cluster.nodes[node].address
        self._reader, self._writer = cluster.loop.run_until_complete(
            asyncio.open_connection(*address, ssl=tls)
        )
        cluster.closers.append(self.close)

    def close(self) -> None:
        """Hangs up."""
        self._writer.close()

    def send(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self._writer.write(data)

    def request(self, request: Any, version: int | None = None) -> None:
        """Sends a request, and waits for nothing."""
        key = key_of(request)
        version = SUPPORTED[key].last if version is None else version
        self._count += 1
        self.send(write_request(key, version, self._count, self._client_id, request))

    def receive(self) -> bytes:
        """Returns the next frame; raises `Closed` where there is none."""
        return self._cluster.loop.run_until_complete(asyncio.wait_for(self._receive(), PATIENCE_S))

    async def _receive(self) -> bytes:
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(4))
            return await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise Closed from None

    def ask(self, request: Any, version: int | None = None) -> Any:
        """Returns the answer; the newest version unless told otherwise."""
        key = key_of(request)
        version = SUPPORTED[key].last if version is None else version
        self.request(request, version)
        answer = read_response(memoryview(self.receive()), key, version)
        assert answer[0] == self._count
        return answer[1]

    def is_closed(self, within_s: float = PATIENCE_S) -> bool:
        """Whether the broker hangs up within a time, without another byte."""

        async def read() -> bytes:
            return await asyncio.wait_for(self._reader.read(1), within_s)

        try:
            return self._cluster.loop.run_until_complete(read()) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    # -- logging in

    def begin(self, mechanism: str = SCRAM) -> Any:
        """Sends a handshake, and returns the answer."""
        return self.ask(SaslHandshakeRequest(mechanism))

    def step(self, data: bytes, version: int | None = None) -> Any:
        """Sends one message of a mechanism; raises `LoginRefused` where it is not taken."""
        answer = self.ask(SaslAuthenticateRequest(data), version)
        if answer.error_code:
            raise LoginRefused(answer.error_code, answer.error_message)
        return answer

    def log_in(self, user: str, password: str = PASSWORD, mechanism: str = SCRAM) -> Any:
        """Logs in; returns the last answer."""
        handshake = self.begin(mechanism)
        if handshake.error_code:
            raise LoginRefused(handshake.error_code, None)
        if mechanism == "PLAIN":
            return self.step(f"\0{user}\0{password}".encode())
        scram = ScramClient(SCRAM_MECHANISMS[mechanism], user, Secret.of(password), os.urandom(18))
        answer = self.step(scram.final(bytes(self.step(scram.first()).auth_bytes)))
        scram.verify(bytes(answer.auth_bytes))
        return answer


def change(cluster: LiveCluster, command: AccessCommand, *, node: int = 1) -> None:
    """Has the controller change users or rules, and waits until all brokers know."""
    outcomes: list[object] = []
    cluster.nodes[node].broker.doors.access.submit(command, 60_000, outcomes.append)
    cluster.wait(lambda: bool(outcomes), "the controller has answered")
    assert not isinstance(outcomes[0], Exception), outcomes
    epoch = max(live.broker.doors.access.state.epoch for live in cluster.nodes.values())
    cluster.wait(
        lambda: all(
            live.broker.doors.access.state.epoch >= epoch for live in cluster.nodes.values()
        ),
        "all brokers know",
    )


def add_user(
    cluster: LiveCluster,
    name: str,
    *,
    password: str = PASSWORD,
    mechanism: str = SCRAM,
    **more: Any,
) -> str:
    """Adds a user with a verifier, and returns its credential's id."""
    verifier = verifier_of_password(
        SCRAM_MECHANISMS[mechanism], name, Secret.of(password), b"a salt of tests", 4096
    )
    fields = {each: getattr(verifier, each) for each in verifier.__struct_fields__}
    credential = type(verifier)(**{**fields, **more})
    change(cluster, PutCredential(credential=credential))
    return str(credential.id)


def allow(
    cluster: LiveCluster,
    user: str,
    operation: Operation,
    resource_type: ResourceType,
    name: str,
    *,
    effect: Effect = Effect.ALLOW,
) -> None:
    """Adds a rule; `name` ends with `*` for a prefix, and is `*` for any name."""
    pattern = PatternKind.LITERAL
    if name.endswith("*"):
        name = name[:-1]
        pattern = PatternKind.PREFIX if name else PatternKind.ANY
    rule = Rule(
        effect=effect,
        principal=user_principal(user),
        operation=operation,
        resource_type=resource_type,
        pattern=pattern,
        name=name,
    )
    change(cluster, AddRules(rules=(rule,)))


def forget_rules(cluster: LiveCluster, user: str) -> None:
    """Removes all rules of a user."""
    for kind in (ANY, *OWN_TYPES):
        wanted = AclFilter(resource_type=kind, principal=user_principal(user))
        change(cluster, RemoveRules(wanted=wanted))


def produce_request(
    topic: str, *, acks: int = -1, transactional_id: str | None = None, index: int = 0
) -> ProduceRequest:
    """Returns a request that appends one record, for version 9."""
    records = encode_batch([Record(0, 0, None, b"value", ())])
    data = PartitionProduceData(index, records)
    return ProduceRequest(
        transactional_id, acks, 5000, [TopicProduceData(name=topic, partition_data=[data])]
    )


def produce(client: Client, topic: str, **more: Any) -> int:
    """Appends one record; returns the error code."""
    answer = client.ask(produce_request(topic, **more), 9)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def codes(parts: Sequence[Any]) -> list[int]:
    """Returns the error codes of all parts of an answer."""
    return [each.error_code for each in parts]
