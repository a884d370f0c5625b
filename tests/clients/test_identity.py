"""Unchanged clients are known by a certificate, by a provider's token, and by a delegation token.

One broker: an open listener where rules are made, one where the certificate says who a client is,
and one where clients log in over TLS.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiokafka
import kafka
import pytest
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from aiokafka.errors import TopicAuthorizationFailedError as AioForbidden
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from joserfc import jwk, jws
from kafka.net.sasl.oauth import AbstractTokenProvider

from kafkaesque.cli.broker_ports import unused_ports
from tests.certificates import TestAuthority
from tests.clients.node_client import missing, run_node
from tests.clients.test_advertised_host import is_ready
from tests.clients.test_log_in import FORBIDDEN, PASSWORD, TOPIC, make_topic, make_users
from tests.forked import processes
from tests.waiting import DEADLINE_S, eventually

#: scripts/test-clients runs them.
pytestmark = pytest.mark.extended

ISSUER, AUDIENCE = "https://id.example.org", "orders-cluster"
NAME = "app"
CLUSTER = "identity"
SHORT_S = 30


class Place(NamedTuple):
    """The broker's listeners, and what its clients need."""

    open: str
    #: The certificate says who it is.
    mutual: str
    #: Log-in over TLS.
    encrypted: str
    authority: TestAuthority
    directory: Path
    process: subprocess.Popen[bytes]

    def provide(self, key: Any) -> None:
        """Have the broker believe this key, and no other one."""
        path = self.directory / "jwks.json"
        new = path.with_suffix(".new")
        new.write_text(json.dumps({"keys": [key.as_dict(private=False)]}))
        new.replace(path)


KEY = jwk.ECKey.generate_key("P-256", {"kid": "first"})


def token(key: Any = KEY, **changes: Any) -> str:
    """A provider's token."""
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": NAME,
        "exp": int(time.time()) + 600,
        **changes,
    }
    header = {"alg": "ES256", "kid": key.kid}
    return jws.serialize_compact(header, json.dumps(claims).encode(), key, ["ES256"])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    yield from made(tmp_path_factory.mktemp("identity"))


@pytest.fixture
def guessed(tmp_path: Path) -> Iterator[Place]:
    """A broker for those who are refused: after that, their address is refused for a while."""
    yield from made(tmp_path)


def made(directory: Path) -> Iterator[Place]:
    inside, mutual, encrypted, peer, admin = unused_ports(5)
    authority = TestAuthority(directory / "ca", CLUSTER)
    authority.authority.issue_user("root")
    secret = directory / "secret"
    secret.write_text("a secret of the cluster, long enough\n")
    secret.chmod(0o600)
    listening = 'host = "0.0.0.0"\nadvertised.host = "127.0.0.1"\naccess = "required"\n'
    (directory / "broker.toml").write_text(
        f'[broker]\nid = 1\ncluster.id = "{CLUSTER}"\ndata = "{directory}/data"\ntext.port = 0\n'
        f'cluster.secret.file = "{secret}"\nsuper.users = "User:root"\n'
        f"kafka.port = {inside}\npeer.port = {peer}\nadmin.port = {admin}\n"
        f'sasl.oauthbearer.expected.issuer = "{ISSUER}"\n'
        f'sasl.oauthbearer.expected.audience = "other, {AUDIENCE}"\n'
        f'sasl.oauthbearer.jwks.endpoint.url = "file://{directory}/jwks.json"\n'
        f'[[listener]]\nname = "mutual"\nport = {mutual}\n{listening}'
        'log.in.by = "certificate"\ntls.client.auth = "required"\n'
        f'[[listener]]\nname = "encrypted"\nport = {encrypted}\n{listening}tls = true\n'
        f'[tls]\ncertificate = "{authority.certificate("broker-1")}"\n'
        f'key = "{authority.key("broker-1")}"\nca = "{authority.ca}"\n'
        f'crl = "{authority.directory}/crl.pem"\n'
        "[options]\ngroup.initial.rebalance.delay.ms = 0\n"
    )
    command = [sys.executable, "-m", "kafkaesque.server", "--config"]
    command.append(str(directory / "broker.toml"))
    keys = json.dumps({"keys": [KEY.as_dict(private=False)]})
    (directory / "jwks.json").write_text(keys)
    with (directory / "log").open("wb") as log, processes.Popen(command, stderr=log) as process:
        try:
            eventually(lambda: is_ready(process, admin), "the broker is ready")
            first, second, third = (f"127.0.0.1:{each}" for each in (inside, mutual, encrypted))
            found = Place(first, second, third, authority, directory, process)
            make_users(found.open)
            for name in (TOPIC, FORBIDDEN):
                make_topic(found.open, name)
            yield found
        finally:
            process.terminate()
            process.wait(90)


# -- certificates


def ssl_options(place: Place, user: str = NAME) -> dict[str, Any]:
    """Return librdkafka's settings for a client with a certificate."""
    return {
        "bootstrap.servers": place.mutual,
        "security.protocol": "ssl",
        "ssl.ca.location": str(place.authority.ca),
        "ssl.certificate.location": str(place.authority.certificate(user)),
        "ssl.key.location": str(place.authority.key(user)),
    }


def confluent_outcome(options: dict[str, Any], topic: str) -> KafkaError | None:
    outcome: list[KafkaError | None] = []
    producer = Producer({**options, "message.timeout.ms": 20_000})
    try:
        producer.produce(topic, b"value", on_delivery=lambda error, _: outcome.append(error))
    except KafkaException as refused:
        # It has heard already that it may not; otherwise it is told later.
        return refused.args[0]  # type: ignore[no-any-return]
    producer.flush(DEADLINE_S)
    return outcome[0]


def test_librdkafka_is_known_by_its_certificate(place: Place) -> None:
    assert confluent_outcome(ssl_options(place), TOPIC) is None
    refused = confluent_outcome(ssl_options(place), FORBIDDEN)
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert confluent_outcome(ssl_options(place, "root"), FORBIDDEN) is None
    assert set(AdminClient(ssl_options(place)).list_topics(timeout=SHORT_S).topics) == {TOPIC}


def test_aiokafka_is_known_by_its_certificate(place: Place) -> None:
    async def exchange() -> None:
        context = place.authority.client(NAME)
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=place.mutual, security_protocol="SSL", ssl_context=context
        )
        await producer.start()
        try:
            await producer.send_and_wait(TOPIC, b"aio")
            with pytest.raises(AioForbidden):
                await producer.send_and_wait(FORBIDDEN, b"aio")
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(exchange(), DEADLINE_S))


def test_kafka_python_is_known_by_its_certificate(place: Place) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=place.mutual,
        security_protocol="SSL",
        ssl_cafile=str(place.authority.ca),
        ssl_certfile=str(place.authority.certificate(NAME)),
        ssl_keyfile=str(place.authority.key(NAME)),
    )
    producer.send(TOPIC, b"kp").get(SHORT_S)
    with pytest.raises(kafka.errors.KafkaError):
        producer.send(FORBIDDEN, b"kp").get(SHORT_S)
    producer.close()


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat_is_known_by_its_certificate(place: Place) -> None:
    options = ssl_options(place)
    command = ["kcat", "-b", options.pop("bootstrap.servers"), "-C", "-e", "-q", "-t"]
    settings = [word for pair in options.items() for word in ("-X", "=".join(pair))]
    done = processes.run(
        [*command, FORBIDDEN, *settings],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert "authorization failed" in done.stderr.lower()


@pytest.mark.skipif(bool(missing()), reason=missing() or "it is there")
def test_kafkajs_is_known_by_its_certificate(place: Place) -> None:
    files = {
        "ca": str(place.authority.ca),
        "cert": str(place.authority.certificate(NAME)),
        "key": str(place.authority.key(NAME)),
    }
    messages = [{"value": "js"}]
    run_node("produce", place.mutual, topic=TOPIC, messages=messages, ssl=files)
    with pytest.raises(AssertionError, match="Topic authorization failed"):
        run_node("produce", place.mutual, topic=FORBIDDEN, messages=messages, ssl=files)


def test_who_is_revoked_comes_in_no_more(place: Place) -> None:
    place.authority.authority.issue_user("guest")
    options = ssl_options(place, "guest")
    assert AdminClient(options).list_topics(timeout=SHORT_S).brokers
    place.authority.authority.revoke("guest")

    def is_out() -> bool:
        try:
            AdminClient(options).list_topics(timeout=2)
        except Exception:
            return True
        return False

    eventually(is_out, "it is refused")


# -- a provider's tokens


def bearer_options(place: Place, text: str) -> dict[str, Any]:
    """Return librdkafka's settings for a client with a token."""
    return {
        "bootstrap.servers": place.encrypted,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(place.authority.ca),
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (text, time.time() + 500),
    }


def test_librdkafka_logs_in_by_a_token(guessed: Place) -> None:
    # A name that is a user of the cluster's own is not to be had from a provider.
    assert is_refused(bearer_options(guessed, token()))
    options = bearer_options(guessed, token(sub="robot"))
    assert AdminClient(options).list_topics(timeout=SHORT_S).brokers
    refused = confluent_outcome(options, FORBIDDEN)
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert confluent_outcome(bearer_options(guessed, token(sub="root-of-idp")), TOPIC) is not None


def is_refused(options: dict[str, Any]) -> bool:
    errors: list[int] = []
    options = {**options, "error_cb": lambda error: errors.append(error.code())}
    admin = AdminClient(options)

    def has_failed() -> bool:
        admin.poll(0.1)
        return KafkaError._AUTHENTICATION in errors

    try:
        admin.list_topics(timeout=2)
    except Exception:
        eventually(has_failed, "the refusal")
        return True
    return False


@pytest.mark.parametrize("changes", [{"iss": "https://evil"}, {"aud": "x"}, {"exp": 1}])
def test_librdkafka_is_refused_with_a_token_of_another(
    guessed: Place, changes: dict[str, Any]
) -> None:
    assert is_refused(bearer_options(guessed, token(sub="robot", **changes)))


class AioProvider(AioTokenProvider):  # type: ignore[misc]
    async def token(self) -> str:
        return token(sub="aio")


def allow_writing(place: Place, user: str) -> None:
    cli(place, "rule", "create", f"User:{user}", "-o", "write", "--topic", TOPIC)


def test_aiokafka_logs_in_by_a_token(place: Place) -> None:
    allow_writing(place, "aio")

    async def exchange() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=place.encrypted,
            security_protocol="SASL_SSL",
            ssl_context=place.authority.client(),
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=AioProvider(),
        )
        await producer.start()
        try:
            await producer.send_and_wait(TOPIC, b"aio")
            with pytest.raises(AioForbidden):
                await producer.send_and_wait(FORBIDDEN, b"aio")
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(exchange(), DEADLINE_S))


class Provider(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, **config: Any) -> None:
        pass

    def token(self) -> str:
        return token(sub="kp")


def test_kafka_python_logs_in_by_a_token(place: Place) -> None:
    allow_writing(place, "kp")
    producer = kafka.KafkaProducer(
        bootstrap_servers=place.encrypted,
        security_protocol="SASL_SSL",
        ssl_cafile=str(place.authority.ca),
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Provider(),
    )
    producer.send(TOPIC, b"kp").get(SHORT_S)
    with pytest.raises(kafka.errors.KafkaError):
        producer.send(FORBIDDEN, b"kp").get(SHORT_S)
    producer.close()


@pytest.mark.skipif(bool(missing()), reason=missing() or "it is there")
def test_kafkajs_logs_in_by_a_token(guessed: Place) -> None:
    allow_writing(guessed, "js")
    given: dict[str, Any] = {
        "ssl": {"ca": str(guessed.authority.ca)},
        "sasl": {"token": token(sub="js")},
        "messages": [{"value": "js"}],
    }
    run_node("produce", guessed.encrypted, topic=TOPIC, **given)
    with pytest.raises(AssertionError, match="Topic authorization failed"):
        run_node("produce", guessed.encrypted, topic=FORBIDDEN, **given)
    given["sasl"] = {"token": token(sub="js", aud="x")}
    # It does not answer the challenge that says so, and is cut off where it goes on.
    with pytest.raises(AssertionError, match="KafkaJS"):
        run_node("produce", guessed.encrypted, topic=TOPIC, **given)


def test_keys_that_change_are_read_again(guessed: Place) -> None:
    new = jwk.ECKey.generate_key("P-256", {"kid": "second"})

    def is_believed(key: Any) -> bool:
        options = bearer_options(guessed, token(key, sub="robot"))
        try:
            return bool(AdminClient(options).list_topics(timeout=3).brokers)
        except Exception:
            return False

    assert is_believed(KEY)
    assert not is_believed(new)
    guessed.provide(new)
    eventually(lambda: is_believed(new), "the new key counts")
    assert not is_believed(KEY)
    # What does not fit leaves the old keys in use.
    (guessed.directory / "jwks.json").write_text("{}")
    log = guessed.directory / "log"
    eventually(lambda: b"keys that were in use before" in log.read_bytes(), "it complains")
    assert is_believed(new)
    guessed.provide(KEY)
    guessed.process.send_signal(signal.SIGHUP)
    eventually(lambda: is_believed(KEY), "the first key counts again")


# -- delegation tokens


def cli(
    place: Place, *words: str, code: int = 0, **environment: Any
) -> subprocess.CompletedProcess[str]:
    done = processes.run(
        [sys.executable, "-m", "kafkaesque.cli.app", *words],
        env={**os.environ, "KAFKAESQUE_BOOTSTRAP_SERVER": place.open, **environment},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_the_command_line_makes_lists_renews_and_revokes_tokens(
    place: Place, tmp_path: Path
) -> None:
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    password.chmod(0o600)
    app: dict[str, Any] = {
        "KAFKAESQUE_BOOTSTRAP_SERVER": place.encrypted,
        "KAFKAESQUE_CA": str(place.authority.ca),
        "KAFKAESQUE_USER": NAME,
        "KAFKAESQUE_PASSWORD_FILE": str(password),
    }
    file = tmp_path / "job.token"
    words = ("token", "create", str(file), "--hours", "12", "--renewer", "root", "--json")
    made = json.loads(cli(place, *words, **app).stdout)
    assert file.stat().st_mode & 0o777 == 0o600
    text = file.read_text()
    assert f'username="{made["token_id"]}"' in text
    assert 'tokenauth="true"' in text
    secret = base64.b64decode(text.partition('password="')[2].partition('"')[0])
    assert len(secret) == 32
    listed = cli(place, "token", "list", **app).stdout
    assert made["token_id"] in listed
    assert "User:root" in listed
    assert base64.b64encode(secret).decode() not in listed
    cli(place, "token", "renew", str(file), "--hours", "2", **app)
    again = cli(place, *words, code=2, **app)
    assert "cannot write" in again.stderr
    cli(place, "token", "revoke", str(file), **app)
    assert made["token_id"] not in cli(place, "token", "list", **app).stdout
    gone = cli(place, "token", "renew", str(file), code=1, **app)
    assert "there is no such token" in gone.stderr
    stranger = cli(place, "token", "create", str(tmp_path / "x"), code=1)
    assert "logged in" in stranger.stderr
    assert not (tmp_path / "x").exists()
    files = [each for each in place.directory.rglob("*") if each.is_file()]
    assert not any(base64.b64encode(secret) in each.read_bytes() for each in files)
    assert not any(secret in each.read_bytes() for each in files)


def test_the_command_line_is_known_by_its_certificate(place: Place) -> None:
    root: dict[str, Any] = {
        "KAFKAESQUE_BOOTSTRAP_SERVER": place.mutual,
        "KAFKAESQUE_CA": str(place.authority.ca),
        "KAFKAESQUE_CLIENT_CERTIFICATE": str(place.authority.certificate("root")),
        "KAFKAESQUE_CLIENT_KEY": str(place.authority.key("root")),
    }
    assert NAME in cli(place, "user", "list", **root).stdout
