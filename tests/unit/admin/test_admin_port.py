"""The admin port on simulated brokers: metrics, health and its bounds."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kafkaesque import __version__
from kafkaesque.admin.controllers import answer_controllers
from kafkaesque.admin.gateway import CONNECTIONS_MAX, AdminGateway
from kafkaesque.admin.health import reasons_against
from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.doors.transactions import Transactions
from kafkaesque.broker.listeners import ADMIN, Listener, default_listener
from kafkaesque.broker.partitions.partition_table import RecoveryState
from kafkaesque.chassis import http_connection as bounds
from kafkaesque.env.network import Address, Connection, Framing, ListenOptions
from kafkaesque.gateway.chassis_of import make_chassis
from kafkaesque.gateway.kafka.gateway import KafkaGateway
from kafkaesque.model.ids import NodeId
from kafkaesque.sim.cluster import KAFKA_PORT, SimCluster
from kafkaesque.sim.env import Machine, World

PORT = 8080


class Visitor:
    """Sends bytes, keeps what comes."""

    def __init__(self, world: World, machine: Machine) -> None:
        self.received = b""
        self.is_closed = False
        self.connection: Connection | None = None
        self._world = world
        env = machine.boot()
        options = ListenOptions(framing=Framing.STREAM)
        env.network.connect(Address("b1", PORT), options, self, lambda _: self.on_close(None))
        world.loop.run_until(lambda: self.connection is not None or self.is_closed)

    def on_open(self, connection: Connection) -> None:
        self.connection = connection

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        self.received += bytes(data)

    def on_writable(self) -> None: ...

    def on_close(self, error: Exception | None) -> None:
        self.is_closed = True

    def say(self, data: bytes) -> None:
        assert self.connection is not None
        self.connection.write([data])

    def ask(self, path: str) -> tuple[int, str]:
        """Send a request; return status and body of the answer."""
        self.received = b""
        self.say(f"GET {path} HTTP/1.1\r\nHost: b1\r\n\r\n".encode())
        return self.answer()

    def answer(self) -> tuple[int, str]:
        self._world.loop.run_until(self._is_whole, 60_000)
        head, _, body = self.received.partition(b"\r\n\r\n")
        return int(head.split()[1]), body.decode()

    def _is_whole(self) -> bool:
        head, blank, body = self.received.partition(b"\r\n\r\n")
        if not blank:
            return self.is_closed
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        return len(body) >= length or self.is_closed


def _with_admin_port(config: BrokerConfig, address: Address) -> BrokerConfig:
    return replace(config, listeners=[*config.listeners, default_listener(ADMIN, address)])


class ClusterWithPorts(SimCluster):
    """Every broker has an admin port, as it says at its registration."""

    def _config(self, name: str) -> BrokerConfig:
        return _with_admin_port(super()._config(name), Address(name, PORT))


class Ground:
    """Three simulated brokers, the first with an admin port."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        # Its own, so that it can be given other doors.
        self.cluster = ClusterWithPorts(self.world, gateways={KAFKA_PORT: KafkaGateway})
        self.lines: list[str] = []
        self._count = 0
        self.cluster.start()
        self.run_until(lambda: len(self.cluster.brokers) == 3)
        self.broker = self.cluster.brokers["b1"]
        self.serve(self.broker.doors)

    def serve(self, doors: Doors) -> None:
        """Open the admin port, on these doors."""
        self.gateway = AdminGateway(doors, make_chassis(doors, self.lines.append), "1.2.3")
        self.gateway.start(default_listener(ADMIN, Address("b1", PORT)))

    def run_until(self, condition: Callable[[], bool]) -> None:
        self.world.loop.run_until(condition, 60_000)

    def visit(self) -> Visitor:
        self._count += 1
        return Visitor(self.world, self.world.add_machine(f"visitor{self._count}"))

    def wait_until_ready(self) -> None:
        brokers = self.cluster.brokers.values()
        self.run_until(lambda: not any(reasons_against(each.doors) for each in brokers))


@pytest.fixture
def ground() -> Ground:
    made = Ground()
    made.wait_until_ready()
    return made


def values(text: str) -> dict[str, float]:
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_are_what_the_official_parser_reads(ground: Ground) -> None:
    def applied() -> int:
        return ground.broker.controller.applied_offset

    before = applied()
    status, body = ground.visit().ask("/metrics")
    assert status == 200
    found = values(body)
    assert found["kafkaesque_broker_ready"] == 1
    assert found["kafkaesque_controller_node"] == ground.broker.controller_client.leader()
    assert found["kafkaesque_wal_sync_seconds_count"] > 0
    assert found["kafkaesque_wal_sync_records_sum"] > 0
    assert before <= found["kafkaesque_metadata_applied_offset"] <= applied()


def test_listeners_are_metered_by_protocol_and_name(ground: Ground) -> None:
    second = Listener(protocol=ADMIN, name="second", advertised=Address("b1", PORT + 1))
    ground.gateway.start(second)
    visitor = ground.visit()
    visitor.ask("/health/live")
    _, body = visitor.ask("/metrics")
    found = {
        (sample.labels["protocol"], sample.labels["listener"], sample.name): sample.value
        for family in text_string_to_metric_families(body)
        for sample in family.samples
        if "listener" in sample.labels
    }

    def of(listener: str, name: str) -> float:
        return found["admin", listener, f"kafkaesque_listener_{name}"]

    assert of("admin", "connections") == of("admin", "connections_accepted_total") == 1
    assert (of("admin", "requests_total"), of("admin", "connections_refused_total")) == (2, 0)
    assert of("admin", "bytes_in_total") > 50
    assert of("admin", "bytes_out_total") > 50
    assert {of("second", name) for name in ("connections", "requests_total")} == {0}


def test_a_broker_that_the_others_cannot_reach_says_why_it_is_not_ready() -> None:
    ground = Ground()
    for name in ("b2", "b3"):
        ground.world.machines[name].kill()
    status, body = ground.visit().ask("/health/ready")
    assert status == 503
    assert body.count("\n") == 2
    assert "not registered" in body
    assert "knows no controller" in body
    assert ground.visit().ask("/health/live") == (200, "live\n")


def test_a_controller_that_lost_its_disk_with_the_majority_says_that() -> None:
    ground = Ground()
    ground.wait_until_ready()
    ground.run_until(lambda: not reasons_against(ground.cluster.brokers["b3"].doors))
    _, body = ground.visit().ask("/controllers")
    assert json.loads(body)["has_lost_log"] is False
    for name in ("b1", "b2"):
        machine = ground.world.machines[name]
        machine.kill()
        machine.drive.volume.clear()
        ground.cluster.boot(machine)
    ground.world.loop.run_for(30_000)
    broker = ground.cluster.brokers["b1"]
    (reason,) = reasons_against(broker.doors)
    assert reason.startswith("broker 1 has lost its disk: its directory is empty, and the cluster")
    assert json.loads(answer_controllers(broker.doors).body)["has_lost_log"] is True
    (left,) = reasons_against(ground.cluster.brokers["b3"].doors)
    assert left == "broker 3 knows no controller: perhaps none is elected"


def test_a_controller_that_lost_its_disk_alone_is_ready_again_by_itself(ground: Ground) -> None:
    machine = ground.world.machines["b1"]
    machine.kill()
    machine.drive.volume.clear()
    ground.cluster.boot(machine)
    ground.run_until(lambda: "b1" in ground.cluster.brokers)
    broker = ground.cluster.brokers["b1"]
    ground.run_until(lambda: broker.life.is_ready and not broker.controller_voters.has_lost_log)
    assert reasons_against(broker.doors) == []


def test_a_broker_whose_disk_failed_is_neither_ready_nor_live(ground: Ground) -> None:
    ground.broker.driver.fail(OSError("I/O error"))
    for path in ("/health/live", "/health/ready"):
        status, body = ground.visit().ask(path)
        assert (status, "I/O error" in body) == (503, True)


def test_every_registered_broker_has_its_ports_on_a_page_whether_it_is_up_or_not(
    ground: Ground,
) -> None:
    ground.run_until(lambda: len(ground.broker.state.brokers) == 3)
    ground.world.machines["b3"].kill()
    ground.run_until(lambda: not ground.broker.peers.is_alive(NodeId(3)))
    status, body = ground.visit().ask("/brokers")
    assert status == 200
    brokers = {each["id"]: each for each in json.loads(body)["brokers"]}
    assert {number: each["is_alive"] for number, each in brokers.items()} == {
        1: True,
        2: True,
        3: False,
    }
    assert brokers[3]["admin"] == f"b3:{PORT}"


def test_a_damaged_copy_is_told_with_its_file_and_what_helps(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "t-0/0.log has only 3 of 9 bytes: stop this broker and remove the directory t-0"
    damaged = RecoveryState([], ["t-2", "t-1"], {"t-0": reason})
    monkeypatch.setattr(ground.broker.partitions, "recovery_state", lambda: damaged)
    status, body = ground.visit().ask("/health/ready")
    assert status == 503
    assert body.endswith(f"t-0 is offline on this broker: {reason}\n")
    status, body = ground.visit().ask("/offline-replicas")
    assert json.loads(body)["replicas"] == [{"partition": "t-0", "reason": reason}]
    assert json.loads(body)["copied"] == ["t-1", "t-2"]


def test_the_controllers_are_told_also_while_none_of_them_leads(ground: Ground) -> None:
    def told() -> object:
        return json.loads(ground.visit().ask("/controllers")[1])

    leader = ground.broker.controller_client.leader()
    assert leader is not None
    assert told() == {"seen_by": 1, "leader": leader, "voters": [1, 2, 3], "has_lost_log": False}
    for name in ("b2", "b3"):
        ground.world.machines[name].kill()
    ground.run_until(lambda: ground.broker.controller_client.leader() is None)
    assert told() == {"seen_by": 1, "leader": None, "voters": [1, 2, 3], "has_lost_log": False}


def test_one_connection_serves_one_request_after_another(ground: Ground) -> None:
    visitor = ground.visit()
    assert visitor.ask("/health/ready") == (200, "ready\n")
    assert visitor.ask("/health/live") == (200, "live\n")
    visitor.received = b""
    visitor.say(b"HEAD /metrics HTTP/1.1\r\nHost: b1\r\n\r\n")
    ground.run_until(lambda: b"\r\n\r\n" in visitor.received)
    ground.world.loop.run_for(100)
    assert visitor.received.startswith(b"HTTP/1.1 200")
    assert visitor.received.endswith(b"\r\n\r\n")
    assert visitor.ask("/health/ready") == (200, "ready\n")


def test_requests_sent_at_once_are_answered_in_order(ground: Ground) -> None:
    visitor = ground.visit()
    line = b"GET /%s HTTP/1.1\r\nHost: b1\r\n\r\n"
    visitor.say(line % b"health/live" + line % b"nothing" + line % b"health/ready")
    ground.run_until(lambda: visitor.received.endswith(b"ready\n"))
    assert [visitor.received.index(each) for each in (b" 200 ", b" 404 ", b"ready\n")] == sorted(
        visitor.received.index(each) for each in (b" 200 ", b" 404 ", b"ready\n")
    )


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\nHost: b1\r\nContent-Length: 3\r\n\r\nabc", 413),
        (b"POST /metrics HTTP/1.1\r\nHost: b1\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
        (b"DELETE /metrics HTTP/1.1\r\nHost: b1\r\n\r\n", 405),
        (b"GET / HTTP/1.1\r\nHost: b1\r\n\r\n", 404),
        (b"GET /metrics?" + b"topic=t&" * 21 + b" HTTP/1.1\r\nHost: b1\r\n\r\n", 400),
        (b"GET /metrics?" + b"a=1&" * 200 + b" HTTP/1.1\r\nHost: b1\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", 400),
        (b"GET /" + b"x" * (bounds.HEAD_BYTES_MAX + 1), 431),
    ],
    ids=["body", "chunked", "method", "path", "topics", "fields", "host", "noise", "length"],
)
def test_what_is_not_understood_is_answered_and_costs_nothing(
    ground: Ground, sent: bytes, status: int
) -> None:
    visitor = ground.visit()
    visitor.say(sent)
    assert visitor.answer()[0] == status
    assert ground.visit().ask("/health/ready")[0] == 200


def test_whoever_does_not_end_a_request_is_hung_up_on(ground: Ground) -> None:
    silent, slow = ground.visit(), ground.visit()
    slow.say(b"GET /metrics HTTP/1.1\r\nHo")
    ground.world.loop.run_for(bounds.REQUEST_MS_MAX + 100)
    assert silent.is_closed
    assert slow.is_closed
    assert not ground.gateway.connections


def test_a_connection_without_requests_is_closed_after_a_while(ground: Ground) -> None:
    visitor = ground.visit()
    visitor.ask("/health/live")
    ground.world.loop.run_for(bounds.REQUEST_MS_MAX + 100)
    assert not visitor.is_closed
    ground.world.loop.run_for(bounds.IDLE_MS_MAX)
    assert visitor.is_closed


def test_one_connection_too_many_is_closed(ground: Ground) -> None:
    visitors = [ground.visit() for _ in range(CONNECTIONS_MAX + 1)]
    ground.world.loop.run_for(50)
    assert [each.is_closed for each in visitors].count(True) == 1
    assert len(ground.gateway.connections) == CONNECTIONS_MAX


def test_a_defect_in_a_handler_is_answered_and_reported(ground: Ground) -> None:
    ground.gateway.stop()
    ground.serve(replace(ground.broker.doors, transactions=cast(Transactions, None)))
    assert ground.visit().ask("/metrics")[0] == 500
    assert "could not be answered" in ground.lines[0]
    assert ground.visit().ask("/health/live")[0] == 200


def test_members_are_what_gossip_knows(ground: Ground) -> None:
    ground.world.loop.run_for(3_000)
    status, body = ground.visit().ask("/members")
    assert status == 200
    found = json.loads(body)
    assert found["seen_by"] == 1
    assert [each["id"] for each in found["members"]] == [1, 2, 3]
    assert {each["state"] for each in found["members"]} == {"alive"}
    assert all(each["for_ms"] >= 2_000 for each in found["members"])
    assert found["members"][1]["address"] == "b2:9190"
    assert found["members"][1]["facts"]["release"] == __version__


def test_there_are_no_members_without_gossip(ground: Ground) -> None:
    ground.gateway.stop()
    doors = ground.broker.doors
    ground.serve(replace(doors, condition=replace(doors.condition, gossip=None)))
    status, body = ground.visit().ask("/members")
    assert (status, "no secret" in body) == (404, True)


def test_what_is_formed_anew_comes_first_of_what_waits(ground: Ground) -> None:
    status, body = ground.visit().ask("/recoveries")
    assert (status, json.loads(body)) == (
        200,
        {"seen_by": 1, "count": 0, "open": 0, "recoveries": []},
    )
