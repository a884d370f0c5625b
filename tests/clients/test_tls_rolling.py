"""A cluster in the clear goes over to TLS between brokers while a producer with acks=all sends."""

from __future__ import annotations

import socket
import ssl
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from bench.rolling_restart import BROKERS, PARTITIONS, TOPIC, SteadyProducer, await_in_sync, restart
from tests.certificates import TestAuthority
from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import admin_client, consume_all

#: scripts/test-clients runs them.
pytestmark = pytest.mark.extended

STEPS = ("off", "accept", "dial", "on")


def speaks_tls(port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.settimeout(20)
        try:
            with context.wrap_socket(sock):
                return True
        except (ssl.SSLError, ConnectionError):
            return False


@pytest.mark.timeout(600)
def test_going_over_to_tls_costs_producers_nothing(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path / "ca")

    def section(number: int) -> str:
        own = authority.directory / f"broker-{number}"
        return (
            f'\n[tls]\ncertificate = "{own}.pem"\nkey = "{own}.key"\nca = "{authority.ca}"\n'
            'peers = "off"\n'
        )

    with KafkaesqueCluster(BROKERS, directory=tmp_path, sections=section) as cluster:
        servers = cluster.bootstrap_servers
        topic = NewTopic(TOPIC, PARTITIONS, BROKERS)
        admin = admin_client(servers)
        admin.create_topics([topic])[TOPIC].result(60)
        await_in_sync(servers)
        assert not speaks_tls(cluster.peer_ports[0])
        producer = SteadyProducer(servers, 200)
        producer.start()
        for before, after in pairwise(STEPS):
            for broker in cluster.brokers:
                path = Path(broker.command[-1])
                path.write_text(path.read_text().replace(f'"{before}"', f'"{after}"'))
            restart(cluster.brokers, servers)
        producer.stop()
        assert speaks_tls(cluster.peer_ports[0])
        assert producer.sent > 500
        assert dict(producer.errors) == {}
        found = {int((each.value() or b"").rstrip(b".")) for each in consume_all(servers, TOPIC)}
        assert producer.acknowledged - found == set()
