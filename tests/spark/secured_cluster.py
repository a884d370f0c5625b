"""Brokers that clients reach through relays only, which end TLS and ask for SASL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.clients.cluster import KafkaesqueCluster
from tests.spark.secured_relay import Certificates, Relay

#: Where brokers say they are, at the ports where they listen on 127.0.0.1: there the relays are.
ADVERTISED = "127.0.0.2"
PASSWORD = "hidden-word"
USERS = {"ann": PASSWORD}
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@contextmanager
def advertised_cluster(folder: Path, brokers: int) -> Iterator[KafkaesqueCluster]:
    """Run brokers that nobody but relays, and those who know their true address, can reach."""
    cluster = KafkaesqueCluster(brokers, directory=folder)
    cluster.prepare()
    for path in folder.glob("*/broker-*/broker.toml"):
        # Brokers listen for one another where they say they are.
        text = path.read_text().replace("127.0.0.1", ADVERTISED)
        path.write_text(text.replace("[broker]\n", f'[broker]\nadvertised.host = "{ADVERTISED}"\n'))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


@contextmanager
def relayed(cluster: KafkaesqueCluster, **how: Any) -> Iterator[list[Relay]]:
    """Let clients reach all brokers, through relays that are made with `how`."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(Relay(broker.port, host=ADVERTISED, port=broker.port, **how))
            for broker in cluster.brokers
        ]


def trusting(certificates: Certificates) -> dict[str, str]:
    """Return the options of TLS; names are written with _ for the dots."""
    return {
        "security_protocol": "SSL",
        "ssl_truststore_type": "PEM",
        "ssl_truststore_location": str(certificates.authority),
    }


def sasl(mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    """Return the options of SASL; names are written with _ for the dots."""
    module = _PLAIN if mechanism == "PLAIN" else _SCRAM
    jaas = f'{module} required username="ann" password="{password}";'
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_jaas_config": jaas,
    }


def named(given: dict[str, str]) -> dict[str, str]:
    """Return options as the connector has them."""
    return {f"kafka.{name.replace('_', '.')}": value for name, value in given.items()}
