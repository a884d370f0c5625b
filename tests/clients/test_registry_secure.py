"""The registry of `kafkaesque up --secure`: TLS, passwords, and rules on subjects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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
        self.up = SecureUp(data, "--secure", brokers=1)
        self.url = f"https://127.0.0.1:{self.up.ports['registry']}"
        self.ca = str(data / "certs" / "ca.pem")
        self.password = ""

    def prepare(self) -> None:
        assert self.up.event("ready")["is_secure"] is True
        self.password = "a-long-password-of-the-clerk"
        path = self.up.data / "clerk.password"
        path.write_text(self.password)
        path.chmod(0o600)
        done = self.up.command("admin", "user", "create", "clerk", "--password-file", str(path))
        assert done.returncode == 0, done.stderr
        words = ("rule", "create", "User:clerk", "-o", "write", "--subject", "shop-", "--prefix")
        done = self.up.command("admin", *words)
        assert done.returncode == 0, done.stderr

    @contextmanager
    def client(self, login: str) -> Iterator[SchemaRegistryClient]:
        words = {"basic.auth.user.info": login} if login else {}
        settings = {"url": self.url, "ssl.ca.location": self.ca, "max.retries": 0}
        with SchemaRegistryClient({**settings, **words}) as client:
            yield client

    def status(self, login: str, subject: str) -> int:
        """Try to register; return what is answered."""
        with self.client(login) as client:
            try:
                client.register_schema(subject, AVRO)
            except SchemaRegistryError as error:
                return error.http_status_code
        return 200


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureRegistry]:
    found = SecureRegistry(tmp_path_factory.mktemp("secure") / "data")
    try:
        found.prepare()
        yield found
    finally:
        found.up.close()


def test_rules_say_who_registers_what(secure: SecureRegistry) -> None:
    login = f"clerk:{secure.password}"
    eventually(lambda: secure.status(login, "shop-value") == 200, "the rule is known")
    assert secure.status(login, "bank-value") == 403
    for stranger in ("", "clerk:wrong", "nobody:wrong"):
        assert secure.status(stranger, "shop-value") == 401, stranger
    with secure.client(login) as clerk:
        assert clerk.get_subjects() == ["shop-value"]
        for act in (
            lambda: clerk.delete_subject("shop-value"),
            lambda: clerk.set_compatibility("shop-value", "NONE"),
            lambda: clerk.set_compatibility(None, "NONE"),
        ):
            with pytest.raises(SchemaRegistryError) as refused:
                act()
            assert (refused.value.http_status_code, refused.value.error_code) == (403, 40301)
