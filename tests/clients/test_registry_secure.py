"""The registry of `kafkaesque up --secure`: TLS, passwords, and rules on subjects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from tests.clients.test_up_secure import SecureUp
from tests.waiting import eventually

AVRO = Schema('{"type":"record","name":"R","fields":[]}', "AVRO")


class SecureRegistry:
    """A cluster of one broker, and a user who may register what begins with `shop-`."""

    def __init__(self, data: Path) -> None:
        self.up = SecureUp(data, 0, "--secure", brokers=1)
        self.url = f"https://127.0.0.1:{self.up.registry_port}"
        self.ca = str(data / "certs" / "ca.pem")
        self.password = ""

    def prepare(self) -> None:
        assert self.up.event("ready")["is_secure"] is True
        done = self.up.command("admin", "user", "create", "clerk", "--json")
        assert done.returncode == 0, done.stderr
        self.password = json.loads(done.stdout)["password"]
        words = ("rule", "create", "User:clerk", "-o", "write", "--subject", "shop-", "--prefix")
        done = self.up.command("admin", *words)
        assert done.returncode == 0, done.stderr

    def client(self, login: str) -> SchemaRegistryClient:
        words = {"basic.auth.user.info": login} if login else {}
        return SchemaRegistryClient(
            {"url": self.url, "ssl.ca.location": self.ca, "max.retries": 0, **words}
        )


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureRegistry]:
    found = SecureRegistry(tmp_path_factory.mktemp("secure") / "data")
    try:
        found.prepare()
        yield found
    finally:
        found.up.close()


def status_of(client: SchemaRegistryClient, subject: str) -> int:
    try:
        client.register_schema(subject, AVRO)
    except SchemaRegistryError as error:
        return error.http_status_code
    return 200


def test_rules_say_who_registers_what(secure: SecureRegistry) -> None:
    clerk = secure.client(f"clerk:{secure.password}")
    eventually(lambda: status_of(clerk, "shop-value") == 200, "the rule is known")
    assert status_of(clerk, "bank-value") == 403
    assert status_of(secure.client(""), "shop-value") == 401
    assert status_of(secure.client("clerk:wrong"), "shop-value") == 401
    assert status_of(secure.client("nobody:wrong"), "shop-value") == 401
    assert clerk.get_subjects() == ["shop-value"]
    for act in (
        lambda: clerk.delete_subject("shop-value"),
        lambda: clerk.set_compatibility("shop-value", "NONE"),
        lambda: clerk.set_compatibility(None, "NONE"),
    ):
        with pytest.raises(SchemaRegistryError) as refused:
            act()
        assert (refused.value.http_status_code, refused.value.error_code) == (403, 40301)
