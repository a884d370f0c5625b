"""The audit log of a real broker: what clients do stands in it, and what is done to it is seen.

One broker with an open listener, where users are made, and listeners with a log-in. Another one is
stopped, and its files are tampered with.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from kafkaesque.cli.broker_ports import unused_ports
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.records import Record, decode_batch
from tests.documentation.table import blocks_run_by, this_file
from tests.forked import processes
from tests.waiting import DEADLINE_S, eventually

TOPIC = "__audit"
PASSWORDS = {
    "root": "root-canary-4711",
    "app": "app-canary-4711",
    "mia": "mia-canary-4711",
    "nia": "nia-canary-4711",
    "wrong": "wrong-canary-4711",
}
#: What somebody types who takes the field for the name for that of the password.
TYPED_AS_NAME = "typed-canary-4711"
Entry = dict[str, Any]


class Place:
    """A broker as a process that can be stopped and started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.open, self.secured, self.admin, peer = unused_ports(4)
        keeper = b64encode(b"the key that wraps, of 32 bytes.").decode()
        secrets = {"secret": "a secret of the cluster, for tests", "keeper": keeper}
        for name, text in {**secrets, **PASSWORDS}.items():
            path = folder / name
            path.write_text(text + "\n")
            path.chmod(0o600)
        (folder / "broker.toml").write_text(
            f'[broker]\nid = 1\ndata = "{folder}/data"\ntext.port = 0\nadmin.port = 0\n'
            f'cluster.secret.file = "{folder}/secret"\nkey.keeper.file = "{folder}/keeper"\n'
            f'super.users = "User:root"\nkafka.port = {self.open}\npeer.port = {peer}\n'
            f'[[listener]]\nname = "outside"\nport = {self.secured}\naccess = "required"\n'
            f'[[listener]]\nprotocol = "admin"\nname = "people"\nport = {self.admin}\n'
            'access = "required"\n'
        )
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = ["-m", "kafkaesque.server", "--config", str(self.folder / "broker.toml")]
        with (self.folder / "log").open("ab") as log:
            self.process = processes.Popen([sys.executable, *words], stderr=log)

        def answers() -> bool:
            return self.run("", "cluster", "status").returncode == 0

        eventually(answers, lambda: (self.folder / "log").read_text())

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(30)
            self.process.kill()
            self.process = None

    def run(self, user: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a user, or as nobody."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("KAFKAESQUE_")}
        port = self.secured if user else self.open
        environment["KAFKAESQUE_BOOTSTRAP_SERVER"] = f"127.0.0.1:{port}"
        if user:
            environment["KAFKAESQUE_USER"] = user
            environment["KAFKAESQUE_PASSWORD_FILE"] = str(self.folder / user)
        command = [sys.executable, "-m", "kafkaesque.cli.app", *words]
        return processes.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def ok(self, user: str, *words: str) -> str:
        done = self.run(user, *words)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    def entries(self, *words: str) -> list[Entry]:
        shown = self.ok("root", "audit", "show", "--json", *words)
        return [json.loads(line) for line in shown.splitlines()]

    def wait_for(self, *words: str, **wanted: object) -> Entry:
        """Return the newest entry that has these fields, once there is one."""
        found: list[Entry] = []

        def has_come() -> bool:
            nonlocal found
            found = [
                entry
                for entry in self.entries(*words)
                if all(entry.get(name) == value for name, value in wanted.items())
            ]
            return bool(found)

        eventually(has_come, lambda: f"{wanted} in {self.entries()}")
        return found[-1]

    def settings(self, user: str, password: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": f"127.0.0.1:{self.secured}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": user,
            "sasl.password": password,
            "log_level": 0,
        }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    found = Place(tmp_path_factory.mktemp("audit"))
    try:
        found.start()
        make_users(found, "root", "app", "mia", "nia")
        found.ok("root", "topic", "create", "orders")
        found.ok("root", "topic", "create", "salaries")
        found.ok("root", "rule", "create", "User:app", "-o", "write", "--topic", "orders")
        yield found
    finally:
        found.stop()


def make_users(place: Place, *users: str) -> None:
    for user in users:
        place.ok("", "user", "create", user, "--password-file", str(place.folder / user))


def make_entries(place: Place) -> None:
    """Have some entries of the administrator's, each in a batch of its own."""
    make_users(place, "root")
    for number in range(6):
        place.ok("root", "topic", "create", f"topic-{number}")
        place.wait_for(resource=f"topic-{number}")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A broker that has an audit log, and is stopped."""
    found = Place(tmp_path_factory.mktemp("stopped"))
    try:
        found.start()
        make_entries(found)
    finally:
        found.stop()
    return found


def fail_to_log_in(place: Place, user: str, password: str) -> None:
    errors: list[KafkaError] = []
    producer = Producer({**place.settings(user, password), "error_cb": errors.append})

    def is_refused() -> bool:
        producer.poll(0.1)
        return any(each.code() == KafkaError._AUTHENTICATION for each in errors)

    eventually(is_refused, "the log-in is refused")


def test_a_log_in_that_failed(place: Place) -> None:
    fail_to_log_in(place, "app", PASSWORDS["wrong"])
    entry = place.wait_for("--what", "log-in", outcome="failed", principal="User:app")
    assert entry["host"] == "127.0.0.1"
    assert entry["listener"] == "outside"
    assert entry["mechanism"] == "SCRAM-SHA-256"
    assert entry["because"] == "wrong password, proof or signature"
    assert entry["broker"] == 1


def test_a_name_that_no_user_has_is_not_told(place: Place) -> None:
    fail_to_log_in(place, TYPED_AS_NAME, "x")
    entry = place.wait_for(outcome="failed", principal="(unknown user)")
    assert entry["because"] == "no such user or credential"
    assert TYPED_AS_NAME not in json.dumps(place.entries())


def test_a_log_in_that_succeeded(place: Place) -> None:
    Producer(place.settings("app", PASSWORDS["app"])).list_topics(timeout=DEADLINE_S)
    entry = place.wait_for(
        "--principal", "app", kind="log-in", outcome="succeeded", mechanism="SCRAM-SHA-256"
    )
    assert entry["principal"] == "User:app"


def ask_admin_port(place: Place, authorization: str) -> int:
    request = Request(f"http://127.0.0.1:{place.admin}/api/v1/topics")
    request.add_header("Authorization", authorization)
    try:
        with urlopen(request, timeout=DEADLINE_S) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


def basic(user: str, password: str) -> str:
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


def test_log_ins_at_the_admin_port(place: Place) -> None:
    assert ask_admin_port(place, basic("root", PASSWORDS["root"])) == 200
    place.wait_for(mechanism="basic", outcome="succeeded", principal="User:root", listener="people")
    assert ask_admin_port(place, basic("root", PASSWORDS["wrong"])) == 401
    place.wait_for(mechanism="basic", outcome="failed", principal="User:root")
    assert ask_admin_port(place, f"Bearer {PASSWORDS['wrong']}") == 401
    place.wait_for(mechanism="bearer", outcome="failed")
    login = place.folder / "login"
    login.write_text(json.dumps({"user": "root", "password": PASSWORDS["wrong"]}))
    request = Request(f"http://127.0.0.1:{place.admin}/api/v1/session", login.read_bytes())
    request.add_header("Content-Type", "application/json")
    request.add_header("x-kafkaesque-request", "1")
    with pytest.raises(HTTPError) as caught:
        urlopen(request, timeout=DEADLINE_S)
    assert caught.value.code == 401
    place.wait_for(mechanism="session", outcome="failed", principal="User:root")


def test_a_refusal_says_what_of_what_and_why(place: Place) -> None:
    place.ok("", "rule", "create", "User:app", "-o", "read", "--topic", "orders")
    errors: list[Any] = []
    producer = Producer(place.settings("app", PASSWORDS["app"]))
    producer.produce("salaries", b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(DEADLINE_S)
    assert errors[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    entry = place.wait_for("--what", "refusal", resource="salaries", principal="User:app")
    assert entry["resource_type"] == "topic"
    assert entry["because"] == "no rule allows it"
    assert entry["host"] == "127.0.0.1"


def test_what_is_left_out_of_a_list_was_not_refused(place: Place) -> None:
    assert "salaries" not in place.ok("nia", "topic", "list")
    place.ok("root", "topic", "create", "after-the-list")
    place.wait_for(resource="after-the-list")
    assert place.entries("--what", "log-in", "--principal", "nia") != []
    assert place.entries("--what", "refusal", "--principal", "nia") == []


def test_a_change_of_rules_says_who_and_which(place: Place) -> None:
    place.ok("root", "rule", "create", "User:mia", "-o", "read", "--topic", "orders")
    entry = place.wait_for(
        "--principal",
        "root",
        operation="create-rules",
        detail={"1": "allow User:mia READ on TOPIC literal 'orders'"},
    )
    assert (entry["kind"], entry["outcome"]) == ("change", "done")
    assert entry["listener"] == "outside"
    place.ok("root", "rule", "delete", "--principal", "User:mia", "--yes")
    entry = place.wait_for(operation="delete-rules", principal="User:root")
    assert entry["detail"] == {"1": "allow User:mia READ on TOPIC literal 'orders'"}


def test_changes_of_users_topics_and_options(place: Place) -> None:
    place.ok("root", "topic", "alter", "orders", "--config", "retention.ms=86400000")
    entry = place.wait_for(operation="alter-configs", resource="orders")
    assert entry["detail"] == {"1": "set retention.ms=86400000"}
    place.ok("root", "user", "disable", "mia")
    place.wait_for(operation="alter", resource_type="user", resource="mia")
    place.ok("root", "topic", "create", "gone")
    place.ok("root", "topic", "delete", "gone", "--yes")
    place.wait_for(operation="delete", resource="gone", principal="User:root")


def test_changes_of_data(place: Place) -> None:
    admin = AdminClient(place.settings("root", PASSWORDS["root"]))
    place.ok("root", "topic", "create", "data")
    for each in ("one", "two", "three"):
        place.ok("root", "publish", "data", each)
    (deleted,) = admin.delete_records([TopicPartition("data", 0, 2)]).values()
    assert deleted.result().low_watermark == 2
    entry = place.wait_for(operation="delete-records", resource="data")
    assert (entry["principal"], entry["listener"]) == ("User:root", "outside")
    assert entry["detail"] == {"1": "0: before 2"}
    offsets = [TopicPartition("data", 0, 3)]
    (altered,) = admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions("readers", offsets)]
    ).values()
    altered.result()
    entry = place.wait_for(operation="commit-offsets", resource="readers")
    assert (entry["resource_type"], entry["detail"]) == ("group", {"1": "data-0=3"})
    (removed,) = admin.delete_consumer_groups(["readers"]).values()
    removed.result()
    place.wait_for(operation="delete-group", resource="readers", principal="User:root")


def test_changes_of_queues(place: Place) -> None:
    place.ok("root", "queue", "create", "jobs")
    place.wait_for(operation="create", resource_type="queue", principal="User:root")
    place.ok("root", "queue", "create", "dead")
    place.ok("root", "queue", "purge", "jobs", "--yes")
    place.wait_for(operation="purge", resource_type="queue", principal="User:root")
    place.ok("root", "queue", "redrive", "dead", "--to", "jobs")
    entry = place.wait_for(operation="redrive", resource_type="queue", principal="User:root")
    assert entry["detail"] == {"1": "to jobs"}
    assert entry["resource"].endswith("dead")
    # What was refused has changed nothing.
    assert place.run("root", "queue", "purge", "no-such-queue", "--yes").returncode == 1
    place.ok("root", "queue", "delete", "dead", "--yes")
    place.wait_for(operation="delete", resource_type="queue")
    assert not [each for each in place.entries() if "no-such-queue" in str(each.get("resource"))]


def test_use_of_keys(place: Place) -> None:
    place.ok("root", "topic", "create", "sealed", "--config", "encryption=aes256-gcm")
    # The broker itself makes the first version, for whoever has asked for the topic.
    entry = place.wait_for("--what", "key", operation="create", resource="sealed")
    assert entry.get("principal") is None
    place.wait_for(operation="unwrap", resource="sealed", outcome="succeeded")
    keys = Request(f"http://127.0.0.1:{place.admin}/api/v1/topics/sealed/keys", b"")
    keys.add_header("Authorization", basic("root", PASSWORDS["root"]))
    keys.add_header("x-kafkaesque-request", "1")
    with urlopen(keys, timeout=DEADLINE_S) as answer:
        assert answer.status == 200
    entry = place.wait_for(operation="rotate", resource="sealed")
    assert entry["principal"] == "User:root"
    assert entry["detail"]["version"] == "2"
    shred = Request(
        f"http://127.0.0.1:{place.admin}/api/v1/topics/sealed/keys/1", b"", method="DELETE"
    )
    shred.add_header("Authorization", basic("root", PASSWORDS["root"]))
    shred.add_header("x-kafkaesque-request", "1")
    with urlopen(shred, timeout=DEADLINE_S) as answer:
        assert answer.status == 200
    place.wait_for(operation="shred", resource="sealed", principal="User:root")


def test_it_is_read_by_those_whom_a_rule_names_it_and_written_by_nobody(place: Place) -> None:
    done = place.run("app", "audit", "show")
    assert done.returncode == 1
    assert "no rule allows read on topic __audit" in done.stderr
    place.wait_for("--what", "refusal", resource=TOPIC, principal="User:app")
    place.ok("root", "rule", "create", "User:app", "-o", "read", "--topic", "*")
    assert place.run("app", "audit", "verify").returncode == 1, "a rule for all names is not enough"
    place.ok("root", "rule", "create", "User:app", "-o", "read", "--topic", TOPIC)
    eventually(lambda: place.run("app", "audit", "verify").returncode == 0, "the rule counts")
    assert "nothing was altered or removed" in place.ok("app", "audit", "verify")

    root = place.settings("root", PASSWORDS["root"])
    errors: list[Any] = []
    producer = Producer(root)
    producer.produce(TOPIC, b"{}", on_delivery=lambda error, _: errors.append(error))
    producer.flush(DEADLINE_S)
    assert errors[0] is not None
    admin = AdminClient(root)
    assert_refused(lambda: admin.delete_topics([TOPIC])[TOPIC].result(DEADLINE_S))
    where = TopicPartition(TOPIC, 0, 3)
    assert_refused(lambda: admin.delete_records([where])[where].result(DEADLINE_S))
    done = place.run("root", "topic", "alter", TOPIC, "--config", "cleanup.policy=compact")
    assert "must be delete" in done.stderr
    assert_refused(lambda: admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(DEADLINE_S))
    assert place.run("root", "audit", "verify").returncode == 0


def assert_refused(call: Callable[[], object]) -> None:
    with pytest.raises(KafkaException):
        call()


def test_it_is_shown_by_time_by_number_and_as_a_table(place: Place) -> None:
    assert place.entries("--since", "PT0S") == []
    assert len(place.entries("--since", "PT1H", "--max", "2")) == 2
    lines = place.ok("root", "audit", "show", "--what", "log-in", "-n", "1").splitlines()
    assert lines[0].split("\t") == ["TIME", "BROKER", "WHAT", "WHO", "FROM", "EVENT"]
    assert len(lines) == 2
    assert all(line.split("\t")[2] == "log-in" for line in lines[1:])


def test_following_shows_what_comes(place: Place) -> None:
    environment = {
        **os.environ,
        "KAFKAESQUE_BOOTSTRAP_SERVER": f"127.0.0.1:{place.secured}",
        "KAFKAESQUE_USER": "root",
        "KAFKAESQUE_PASSWORD_FILE": str(place.folder / "root"),
    }
    words = ["audit", "show", "--follow", "--json", "--what", "change", "-n", "1"]
    command = [sys.executable, "-m", "kafkaesque.cli.app", *words]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()
            place.ok("root", "topic", "create", "followed")
            # Topics of the broker's own may be made meanwhile.
            shown = (json.loads(line)["resource"] for line in process.stdout)
            assert "followed" in shown
        finally:
            process.kill()


def test_no_secret_stands_in_it(place: Place) -> None:
    fail_to_log_in(place, "app", PASSWORDS["wrong"])
    fail_to_log_in(place, TYPED_AS_NAME, PASSWORDS["wrong"])
    ask_admin_port(place, basic("root", PASSWORDS["root"]))
    place.ok("root", "topic", "create", "after-the-secrets")
    place.wait_for(resource="after-the-secrets")
    consumer = Consumer({**place.settings("root", PASSWORDS["root"]), "group.id": "x"})
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=DEADLINE_S)[1]
        written: list[bytes] = []
        while len(written) < end:
            message = consumer.poll(DEADLINE_S)
            assert message is not None
            assert message.error() is None
            written.append(bytes(message.value() or b""))
    finally:
        consumer.close()
    assert len(written) > 10
    assert not any(b"canary" in each for each in written)
    keeper = (place.folder / "keeper").read_bytes().strip()
    assert not any(keeper in each for each in written)


# -- what is done to the files


def segment_of(place: Place) -> Path:
    """Return the segment of the audit log of a broker that is stopped."""
    (found,) = (place.folder / "data" / f"{TOPIC}-0").glob("*.log")
    return found


Tamper = Callable[[list[Record]], None]


def rewritten(original: bytes, tamper: Tamper) -> bytes:
    """Return a segment whose records were tampered with, each batch with the right checksum."""
    batches = scan_batches(memoryview(original)).batches
    records = [
        record for batch in batches for record in decode_batch(original, 1 << 24, at=batch.at)
    ]
    tamper(records)
    epoch = batches[0].partition_leader_epoch
    return b"".join(
        encode_batch([record], BatchOptions(leader_epoch=epoch, base_offset=record.offset))
        for record in records
    )


def alter(records: list[Record]) -> None:
    at = next(n for n, each in enumerate(records) if b"User:root" in (each.value or b""))
    value = (records[at].value or b"").replace(b"User:root", b"User:boot", 1)
    records[at] = records[at]._replace(value=value)


def remove(records: list[Record]) -> None:
    """With the offsets after it: nobody sees a gap."""
    del records[5]
    for number, each in enumerate(records):
        records[number] = each._replace(offset=number)


def swap(records: list[Record]) -> None:
    one, other = records[5], records[6]
    records[5] = other._replace(offset=one.offset)
    records[6] = one._replace(offset=other.offset)


def cut(records: list[Record]) -> None:
    del records[-3:]


def leave(records: list[Record]) -> None:
    """Nothing is done."""


def verified(place: Place, *words: str) -> tuple[int, Any]:
    done = place.run("", "audit", "verify", str(place.folder / "data"), "--json", *words)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_an_untouched_directory_has_no_fault_and_its_heads_are_saved(stopped: Place) -> None:
    heads = stopped.folder / "heads.json"
    code, told = verified(stopped, "--save", str(heads))
    assert (code, told["faults"], told["chains"]) == (0, [], 1)
    (head,) = json.loads(heads.read_text()).values()
    assert head["number"] == told["entries"] - 1
    assert verified(stopped, "--against", str(heads))[0] == 0


@pytest.mark.parametrize("tamper", [leave, alter, remove, swap])
def test_what_was_done_to_a_record_is_found(stopped: Place, tamper: Tamper) -> None:
    original = segment_of(stopped).read_bytes()
    try:
        segment_of(stopped).write_bytes(rewritten(original, tamper))
        code, told = verified(stopped)
    finally:
        segment_of(stopped).write_bytes(original)
    problems = [(each["entry"], each["problem"].partition(":")[0]) for each in told["faults"]]
    assert all(each["chain"].startswith("1/") for each in told["faults"])
    if tamper is leave:
        assert (code, problems) == (0, [])
        return
    assert code == 1
    expected: dict[Tamper, list[tuple[int, str]]] = {
        remove: [(5, "it is missing before entry 6")],
        swap: [(5, "it is missing before entry 6"), (5, "it stands after entry 6")],
    }
    if tamper is alter:
        ((number, problem),) = problems
        (block,) = blocks_run_by(this_file(__file__), "docs/security.md")
        assert problem in block.content
        assert problem == "it was altered"
        assert told["faults"][0]["offset"] == number
    else:
        assert problems == expected[tamper]


def test_an_end_that_was_cut_off_is_found_by_the_saved_heads(stopped: Place) -> None:
    original = segment_of(stopped).read_bytes()
    heads = str(stopped.folder / "heads.json")
    verified(stopped, "--save", heads)
    try:
        segment_of(stopped).write_bytes(rewritten(original, cut))
        assert verified(stopped)[0] == 0, "nothing else tells of it"
        code, told = verified(stopped, "--against", heads)
    finally:
        segment_of(stopped).write_bytes(original)
    assert code == 1
    assert told["faults"][0]["problem"].startswith("it is missing")


@pytest.mark.extended
def test_a_running_cluster_with_an_altered_record_is_found_out(tmp_path: Path) -> None:
    place = Place(tmp_path)
    try:
        place.start()
        make_entries(place)
        place.stop()
        alter_in_place(segment_of(place))
        place.start()
        done = place.run("root", "audit", "verify")
    finally:
        place.stop()
    assert done.returncode == 1
    assert "it was altered" in done.stdout
    assert "1/" in done.stdout


def alter_in_place(segment: Path) -> None:
    """Alter a record so that positions and checksums are right: brokers notice nothing."""
    content = bytearray(segment.read_bytes())
    batch = next(
        each
        for each in scan_batches(memoryview(content)).batches
        if b"User:root" in content[each.at : each.end]
    )
    records = decode_batch(content, 1 << 24, at=batch.at)
    alter(records)
    options = BatchOptions(leader_epoch=batch.partition_leader_epoch, base_offset=batch.base_offset)
    content[batch.at : batch.end] = encode_batch(records, options)
    segment.write_bytes(content)
