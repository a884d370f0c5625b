"""`kafkaesque up --secure` with a port for NATS: nats.js logs in by an NKey."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator

import nats
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.clients.node_client import missing, run_node
from tests.clients.test_up_secure import SecureUp, librdkafka
from tests.nkeys import public_key_of, seed_of

pytestmark = [
    pytest.mark.extended,
    pytest.mark.skipif(bool(missing()), reason=missing()),
]
SUBJECT = "robots.1"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureUp]:
    found = SecureUp(tmp_path_factory.mktemp("secure") / "data", "--secure", brokers=1)
    try:
        assert found.event("ready")["is_secure"] is True
        yield found
    finally:
        found.close()


def command(up: SecureUp, *words: str) -> str:
    done = up.command("admin", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def exchange(up: SecureUp, seed: Ed25519PrivateKey) -> object:
    return run_node(
        "nats-nkey",
        up.bootstrap,
        url=f"127.0.0.1:{up.ports['nats']}",
        ca=str(up.data / "certs" / "ca.pem"),
        seed=seed_of(seed),
        subject=SUBJECT,
    )


def test_nats_py_by_the_password_of_the_application(up: SecureUp) -> None:
    """It has no rule for subjects."""
    options = librdkafka(up)
    context = ssl.create_default_context(cafile=str(up.data / "certs" / "ca.pem"))

    async def publish() -> list[str]:
        errors: list[str] = []

        async def on_error(error: Exception) -> None:
            errors.append(str(error))

        client = await nats.connect(
            f"tls://127.0.0.1:{up.ports['nats']}",
            user=options["sasl.username"],
            password=options["sasl.password"],
            tls=context,
            tls_handshake_first=True,
            allow_reconnect=False,
            error_cb=on_error,
        )
        await client.publish("robots.1", b"x")
        await client.flush()
        await client.flush()
        told = list(errors)
        await client.close()
        return told

    assert asyncio.run(publish()) == ['nats: permissions violation for publish to "robots.1"']


def test_nats_js_by_an_nkey(up: SecureUp) -> None:
    seed = Ed25519PrivateKey.generate()
    refused = {"refused": "AuthorizationError", "received": ""}
    assert exchange(up, seed) == refused
    key = public_key_of(seed)
    told = command(up, "user", "nkey", "add", "robot", key)
    assert told == f"user robot logs in by the seed of {key}\n"
    assert key in command(up, "user", "list")
    subject = SUBJECT.replace(".", "/")
    command(up, "rule", "create", "User:robot", "-o", "read", "-o", "write", "--subject", subject)
    assert exchange(up, seed) == {"refused": "", "received": "by an NKey"}
    assert exchange(up, Ed25519PrivateKey.generate()) == refused
    command(up, "user", "nkey", "delete", key, "--yes")
    assert exchange(up, seed) == refused
