"""Topics are read and written over TLS and SASL; what is not trusted is left, with a sentence."""

from __future__ import annotations

import logging
import shutil
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaesque.spark.cluster import Cluster
from kafkaesque.spark.errors import ConnectorError, NotAuthenticated, WrongOption
from kafkaesque.spark.range_reader import read_ranges
from kafkaesque.spark.ranges import OffsetRange
from kafkaesque.spark.source_options import SourceOptions, parse_source
from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import TopicMaker, produce
from tests.spark.secured_cluster import (
    ADVERTISED,
    PASSWORD,
    USERS,
    advertised_cluster,
    named,
    sasl,
    trusting,
)
from tests.spark.secured_relay import Certificates, Relay

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaesqueCluster]:
    with advertised_cluster(tmp_path_factory.mktemp("secured"), brokers=1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def port(broker: KafkaesqueCluster) -> int:
    return broker.brokers[0].port


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"), ADVERTISED)


@pytest.fixture(scope="module")
def topic(port: int) -> str:
    """Return a topic with three records, written through a relay that only relays."""
    with Relay(port, host=ADVERTISED, port=port) as relay:
        name = TopicMaker(relay.address)("secured", partitions=1, replication=1)
        produce(relay.address, name, [b"a", b"b", b"c"])
    return name


def options(address: str, topic: str = "any", **given: str) -> SourceOptions:
    """Return options of a source; names are written with _ for the dots."""
    least = {"kafka.bootstrap.servers": address, "subscribe": topic}
    return parse_source({**least, **named(given)}, is_stream=False)


@pytest.fixture(autouse=True)
def nothing_secret_is_told(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> Iterator[None]:
    """Look for the password in what tests have logged and written."""
    caplog.set_level(logging.DEBUG)
    yield
    out, err = capfd.readouterr()
    logged = " ".join(record.getMessage() for record in caplog.get_records("call"))
    assert PASSWORD not in logged + out + err


def read(found: SourceOptions) -> list[bytes]:
    with Cluster(found.cluster) as cluster:
        wanted = [OffsetRange(found.topics[0], 0, 0, 3)]
        batches = list(read_ranges(cluster, found, wanted))
    return [value.as_py() for batch in batches for value in batch.column("value")]


def refusal(found: SourceOptions) -> ConnectorError:
    """Return what asking for topics fails with: at once, and without what is secret."""
    began = time.monotonic()
    with Cluster(found.cluster) as cluster, pytest.raises(ConnectorError) as told:
        cluster.topics(["any"])
    assert time.monotonic() - began < found.cluster.api_timeout_s / 2
    assert PASSWORD not in str(told.value)
    return told.value


def test_records_come_over_tls(port: int, topic: str, certificates: Certificates) -> None:
    with Relay(port, host=ADVERTISED, port=port, tls=certificates.server_context()) as relay:
        assert read(options(relay.address, topic, **trusting(certificates))) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_records_come_to_users(
    port: int, topic: str, certificates: Certificates, mechanism: str
) -> None:
    tls = certificates.server_context()
    given = {**trusting(certificates), **sasl(mechanism), "security_protocol": "SASL_SSL"}
    with Relay(
        port, host=ADVERTISED, port=port, tls=tls, users=USERS, mechanism=mechanism
    ) as relay:
        assert read(options(relay.address, topic, **given)) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("is_text", [False, True], ids=["file", "text"])
def test_a_client_shows_its_certificate(
    port: int,
    topic: str,
    certificates: Certificates,
    is_text: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    given = {"ssl_keystore_type": "PEM", "ssl_key_password": certificates.key_password}
    if is_text:
        # In one line, as some put it into a configuration.
        key, _, chain = certificates.client.read_text().replace("\n", " ").partition("----- -----")
        given["ssl_keystore_key"] = f"{key}-----"
        given["ssl_keystore_certificate_chain"] = f"-----{chain}"
    else:
        given["ssl_keystore_location"] = str(certificates.client)
    tls = certificates.server_context(wants_client=True)
    with Relay(port, host=ADVERTISED, port=port, tls=tls) as relay:
        known = options(relay.address, topic, **trusting(certificates), **given)
        assert read(known) == [b"a", b"b", b"c"]
        hasty = {**trusting(certificates), "default_api_timeout_ms": "1000"}
        with (
            Cluster(options(relay.address, **hasty).cluster) as cluster,
            pytest.raises(ConnectorError),
        ):
            cluster.topics(["any"])
    # Where the library has read the key from.
    assert not list(tmp_path.iterdir())


def test_certificates_that_are_not_trusted_are_told(certificates: Certificates) -> None:
    with Relay(1, host=ADVERTISED, tls=certificates.server_context()) as relay:
        error = refusal(options(relay.address, security_protocol="SSL"))
        assert isinstance(error, NotAuthenticated)
        assert f"the broker at {relay.address} is not trusted" in str(error)


def test_a_truststore_counts_alone_and_without_one_the_system_does(
    certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Certificates(tmp_path, ADVERTISED)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    with Relay(1, host=ADVERTISED, tls=certificates.server_context(), users={}) as relay:
        error = refusal(options(relay.address, **trusting(other)))
        assert f"the broker at {relay.address} is not trusted" in str(error)
        error = refusal(
            options(relay.address, **{**sasl("PLAIN"), "security_protocol": "SASL_SSL"})
        )
        assert "does not accept user name and password" in str(error)


def test_versions_that_are_not_enabled_are_not_spoken(certificates: Certificates) -> None:
    tls = certificates.server_context()
    tls.maximum_version = ssl.TLSVersion.TLSv1_2

    def turn_away() -> None:
        there = listener.accept()[0]
        with there, pytest.raises(ssl.SSLError):
            tls.wrap_socket(there, server_side=True)

    with socket.create_server((ADVERTISED, 0)) as listener:
        thread = threading.Thread(target=turn_away)
        thread.start()
        given = {**trusting(certificates), "ssl_enabled_protocols": "TLSv1.3"}
        address = f"{ADVERTISED}:{listener.getsockname()[1]}"
        error = refusal(options(address, **given))
        thread.join()
    assert f"the broker at {address}" in str(error)
    assert "PROTOCOL" in str(error)


def test_certificates_for_another_host_are_told(port: int, certificates: Certificates) -> None:
    with Relay(port, host="127.0.0.1", tls=certificates.server_context()) as relay:
        given = trusting(certificates)
        error = refusal(options(relay.address, **given))
        assert f"{relay.address} is for another host" in str(error)
        unchecked = {**given, "ssl_endpoint_identification_algorithm": ""}
        with Cluster(options(relay.address, **unchecked).cluster) as cluster:
            cluster.topics(["any"])


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_wrong_passwords_are_told(mechanism: str) -> None:
    with Relay(1, host="127.0.0.1", users=USERS, mechanism=mechanism) as relay:
        error = refusal(options(relay.address, **sasl(mechanism, "not-the-hidden-word")))
        assert f"{relay.address} does not accept user name and password of 'ann'" in str(error)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_brokers_that_do_not_know_the_password_are_left(mechanism: str) -> None:
    with Relay(1, host="127.0.0.1", users=USERS, mechanism=mechanism, is_impostor=True) as relay:
        error = refusal(options(relay.address, **sasl(mechanism)))
        assert isinstance(error, NotAuthenticated)
        assert f"{relay.address} failed: it has not proved that it knows the password" in str(error)


def test_mechanisms_that_a_broker_does_not_take_are_told() -> None:
    with Relay(1, host="127.0.0.1", users=USERS, mechanism="SCRAM-SHA-256") as relay:
        error = refusal(options(relay.address, **sasl("PLAIN")))
        assert "does not take kafka.sasl.mechanism PLAIN, but SCRAM-SHA-256" in str(error)


def test_speaking_in_the_clear_to_tls_is_told() -> None:
    def alert() -> None:
        there = listener.accept()[0]
        with there:
            there.recv(1 << 16)
            # As Java's TLS ends what is none: an alert, fatal, internal error.
            there.sendall(bytes.fromhex("15030300020250"))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=alert)
        thread.start()
        error = refusal(options(f"127.0.0.1:{listener.getsockname()[1]}"))
        thread.join()
    assert "speaks TLS there" in str(error)


def test_files_that_cannot_be_used_are_told(certificates: Certificates, tmp_path: Path) -> None:
    with Relay(1, host="127.0.0.1", tls=certificates.server_context()) as relay:
        given = trusting(certificates)
        missing = {**given, "ssl_truststore_location": str(tmp_path / "none.pem")}
        error = refusal(options(relay.address, **missing))
        assert isinstance(error, WrongOption)
        assert "No such file" in str(error)
        (tmp_path / "other.pem").write_text(PASSWORD)
        other = {**given, "ssl_truststore_location": str(tmp_path / "other.pem")}
        assert "no certificates in PEM" in str(refusal(options(relay.address, **other)))
        locked = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(certificates.client)}
        error = refusal(options(relay.address, **given, **locked, ssl_key_password=PASSWORD))
        assert "another kafka.ssl.key.password" in str(error)
        error = refusal(options(relay.address, **given, **locked))
        assert "a kafka.ssl.key.password" in str(error)
