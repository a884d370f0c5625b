"""`kafkaesque user`, `role` and `rule` against a secured cluster of one broker."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.test_cli_up import KAFKAESQUE
from tests.clients.test_up_secure import SecureUp
from tests.waiting import DEADLINE_S, eventually


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureUp]:
    data = tmp_path_factory.mktemp("access") / "data"
    found = SecureUp(data, "--secure", brokers=1)
    try:
        found.event("ready")
        for topic in ("orders-eu", "orders-us", "salaries"):
            admin(found, "topic", "create", topic)
        yield found
    finally:
        found.close()


def admin(up: SecureUp, *words: str, code: int = 0) -> str:
    done = up.command("admin", *words)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def told(up: SecureUp, *words: str) -> Any:
    return json.loads(admin(up, *words, "--json"))


def make(up: SecureUp, name: str, *more: str) -> Path:
    password = up.data / f"{name}.password"
    admin(up, "user", "create", name, "--password-file", str(password), *more)
    return password


def run_as(up: SecureUp, name: str, password: Path, *words: str) -> int:
    """Run a command as somebody; return its exit code."""
    script = f'. "{up.client("app.env")}"; export KAFKAESQUE_USER={name}'
    script += f' KAFKAESQUE_PASSWORD_FILE="{password}"; exec "$@"'
    command = ["sh", "-c", script, "sh", *KAFKAESQUE, *words]
    return subprocess.run(command, capture_output=True, timeout=DEADLINE_S, check=False).returncode


def refused(
    up: SecureUp, *words: str, code: int = 1, without: str = "", **changed: Path | str
) -> str:
    """Run a command as `app` with another environment; return what it says of its failure."""
    pairs = " ".join(f'{name}="{value}"' for name, value in changed.items())
    script = f'. "{up.client("app.env")}"; unset none {without}; export none {pairs}; exec "$@"'
    command = ["sh", "-c", script, "sh", *KAFKAESQUE, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    return done.stderr


def is_in(up: SecureUp, name: str, password: Path) -> bool:
    """Tell whether somebody without any rule may log in, by what is refused."""
    script = f'. "{up.client("app.env")}"; export KAFKAESQUE_USER={name}'
    script += f' KAFKAESQUE_PASSWORD_FILE="{password}"; exec "$@"'
    command = ["sh", "-c", script, "sh", *KAFKAESQUE, "rule", "list"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    has_logged_in = "no rule allows" in done.stderr
    assert has_logged_in or "refused the log-in" in done.stderr, done.stderr
    return has_logged_in


def test_a_role_gives_and_takes(up: SecureUp) -> None:
    password = make(up, "mia")
    publish = ("publish", "orders-eu", "hello")
    assert run_as(up, "mia", password, *publish) == 1
    admin(up, "role", "create", "sellers", "--description", "those who sell")
    added = told(
        up, "rule", "create", "Role:sellers", "-o", "write", "--topic", "orders-", "--prefix"
    )
    assert added["topics"] == ["orders-eu", "orders-us"]
    admin(up, "role", "grant", "sellers", "mia")
    assert told(up, "role", "list") == [
        {"role": "sellers", "users": ["mia"], "rules": 1, "description": "those who sell"}
    ]
    eventually(lambda: run_as(up, "mia", password, *publish) == 0, "the role counts")
    grants = told(up, "rule", "explain", "-o", "write", "--topic", "orders-eu")
    assert [(each["principal"], each["rule"]) for each in grants] == [
        ("User:admin", None),
        ("User:mia", "allow Role:sellers WRITE on TOPIC prefix 'orders-'"),
    ]
    assert [
        each["principal"]
        for each in told(up, "rule", "explain", "-o", "write", "--topic", "salaries")
    ] == ["User:admin"]
    admin(up, "role", "revoke", "sellers", "mia")
    eventually(lambda: run_as(up, "mia", password, *publish) == 1, "the role counts no more")
    admin(up, "role", "delete", "sellers", code=2)  # Nobody can be asked.
    admin(up, "role", "delete", "sellers", "--yes")
    assert told(up, "role", "list") == []
    assert told(up, "rule", "list", "--principal", "Role:sellers") == []
    assert "does not exist" in admin(up, "role", "delete", "sellers", "--yes", code=1)
    assert "no role 'sellers'" in admin(up, "role", "grant", "sellers", "mia", code=1)


def test_users_are_disabled_limited_and_deleted(up: SecureUp) -> None:
    password = make(up, "tom", "--network", "127.0.0.0/8", "--expires", "2099-01-31T00:00:00+00:00")
    assert is_in(up, "tom", password)

    def shown() -> Any:
        return next(each for each in told(up, "user", "list") if each["user"] == "tom")

    assert shown()["networks"] == ["127.0.0.0/8"]
    assert shown()["expires_ms"] == 4_073_500_800_000
    admin(up, "user", "disable", "tom")
    assert shown()["is_disabled"] is True
    eventually(lambda: not is_in(up, "tom", password), "tom is out")
    admin(up, "user", "enable", "tom")
    eventually(lambda: is_in(up, "tom", password), "tom is in")
    # A new password does not lift what the user is limited to.
    new = up.data / "tom.new"
    said = admin(up, "user", "alter", "tom", "--password-file", str(new))
    assert said == f"user tom changed; a new password is in {new}\n"
    eventually(lambda: not is_in(up, "tom", password), "the old password is no longer good")
    password = new
    assert is_in(up, "tom", password)
    assert shown()["networks"] == ["127.0.0.0/8"]
    admin(up, "user", "alter", "tom", "--network", "10.0.0.0/8")
    eventually(lambda: not is_in(up, "tom", password), "tom is not from there")
    admin(up, "user", "alter", "tom", "--network", "any", "--expires", "2001-01-01")
    eventually(lambda: not is_in(up, "tom", password), "tom's time is over")
    admin(up, "user", "alter", "tom", "--expires", "never")
    eventually(lambda: is_in(up, "tom", password), "tom is in")
    assert "no address and no network" in admin(
        up, "user", "alter", "tom", "--network", "everywhere", code=2
    )
    admin(up, "user", "delete", "tom", "--yes")
    assert "tom" not in [each["user"] for each in told(up, "user", "list")]
    eventually(lambda: not is_in(up, "tom", password), "tom is gone")
    assert "no user 'tom'" in admin(up, "user", "disable", "tom", code=1)


def test_a_user_is_created_once_and_keeps_its_password(up: SecureUp) -> None:
    password = make(up, "ann")
    other = up.data / "other.password"
    said = admin(up, "user", "create", "ann", "--password-file", str(other), code=1)
    assert said == (
        "error: user ann exists already\n"
        "try:   kafkaesque user alter ann --password-file FILE, for another password\n"
    )
    assert not other.exists()
    assert is_in(up, "ann", password)
    said = admin(up, "user", "alter", "nobody", "--password-file", str(other), code=1)
    assert said.startswith("error: user nobody does not exist\n")
    assert not other.exists()
    admin(up, "user", "delete", "ann", "--yes")


def test_the_rule_that_is_missing_is_named(up: SecureUp) -> None:
    said = refused(up, "publish", "salaries", "hello")
    assert said == (
        "error: no rule allows write on topic salaries\n"
        "try:   as an administrator: kafkaesque rule create User:app -o write --topic salaries\n"
    )
    admin(up, "rule", "create", "User:app", "-o", "describe", "--topic", "salaries")

    def is_seen() -> bool:
        return "salaries" in up.command("app", "topic", "list").stdout

    eventually(is_seen, "the topic is seen")
    done = up.command("app", "publish", "salaries", "hello")
    assert done.returncode == 1
    assert "rule create User:app -o write --topic salaries" in done.stderr
    admin(up, "rule", "delete", "--principal", "User:app", "--topic", "salaries", "--yes")


@pytest.mark.extended
def test_rules_are_listed_and_deleted_by_all_that_they_say(up: SecureUp) -> None:
    create = ("rule", "create", "User:una", "--topic", "orders-")
    admin(up, *create, "--prefix", "-o", "read", "-o", "write")
    admin(up, *create, "-o", "read", "--deny")
    listing = ("rule", "list", "--principal", "User:una")
    assert len(told(up, *listing)) == 3
    assert [each["effect"] for each in told(up, *listing, "--effect", "deny")] == ["deny"]
    assert len(told(up, *listing, "--operation", "read", "--topic", "orders-")) == 2
    delete = ("rule", "delete", "--principal", "User:una", "--yes")
    assert [
        each["pattern"] for each in told(up, *delete, "--topic", "orders-", "--literal")["deleted"]
    ] == ["literal"]
    assert [each["operation"] for each in told(up, *delete, "-o", "write")["deleted"]] == ["write"]
    assert len(told(up, *listing)) == 1


@pytest.mark.parametrize(
    ("words", "right"),
    [
        ("consume salaries --until-end", "read --topic salaries"),
        ("consume salaries --group app-pay --max 1", "read --topic salaries"),
        ("consume app-mail --group pay --max 1", "read --group pay"),
        ("group describe pay", "describe --group pay"),
        ("group delete pay", "delete --group pay"),
        ("group reset-offsets pay --topic app-mail --to earliest", "read --group pay"),
        ("group reset-offsets app-pay --topic salaries --to earliest", "read --topic salaries"),
        ("topic describe salaries", "describe --topic salaries"),
        ("topic create mine", "create --topic mine"),
        ("topic alter salaries --config retention.ms=1", "alter-configs --topic salaries"),
        ("topic alter salaries --partitions 3", "alter --topic salaries"),
        ("topic delete salaries --yes", "delete --topic salaries"),
        ("config describe --topic salaries", "describe-configs --topic salaries"),
        ("config set --group pay share.auto.offset.reset=latest", "alter-configs --group pay"),
        ("config set --all-brokers num.partitions=2", "alter-configs --cluster"),
        ("config quota list", "describe-configs --cluster"),
        ("queue create jobs", "create --queue jobs"),
        ("queue describe jobs", "describe --queue jobs"),
        ("queue peek jobs", "read --queue jobs"),
        ("queue get jobs", "read --queue jobs"),
        ("txn describe pay", "describe --transactional-id pay"),
        ("txn producers salaries", "read --topic salaries"),
        ("cluster controllers", "describe --cluster"),
        ("cluster remove 7", "alter --cluster"),
        ("user list", "describe --cluster"),
        ("user disable admin", "alter --cluster"),
        ("rule list", "describe --cluster"),
    ],
)
def test_each_command_names_the_rule_that_it_needs(up: SecureUp, words: str, right: str) -> None:
    if "app-mail" in words:
        admin(up, "topic", "create", "app-mail", "--if-not-exists")
    operation, _, name = right.rpartition("--")
    kind, _, name = name.partition(" ")
    what = f"{kind.replace('-', ' ')} {name}" if name else "the cluster"
    assert refused(up, *words.split()) == (
        f"error: no rule allows {operation.strip()} on {what}\n"
        f"try:   as an administrator: kafkaesque rule create User:app -o {right}\n"
    )


@pytest.mark.extended
def test_the_doctor_says_what_it_may_not_look_at(up: SecureUp) -> None:
    """Not that there is nothing: no finding of a cluster that is well, and no empty answers."""
    done = up.command("app", "doctor", "--json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert [each["check"] for each in found["findings"]] == ["single-broker"]
    describes = "no rule allows describe on the cluster"
    configs = "no rule allows describe-configs on the cluster, which says where its admin port is"
    assert found["unseen"] == [
        f"topics, groups and transactions of others: {describes}",
        f"it is not known which replicas move: {describes}",
        f"the controllers: {describes}",
        f"the clock and limits of broker 1: {configs}",
        f"the disk space of broker 1: {describes}",
        f"the listeners of broker 1: {describes}",
    ]
    assert "kafkaesque rule create User:app -o describe -o describe-configs --cluster\n" in (
        up.command("app", "doctor").stdout
    )
    status = up.command("app", "cluster", "status")
    assert "Topics that this user may not describe are not counted" in status.stderr
    assert "Topics that" not in up.command("admin", "cluster", "status").stderr


@pytest.mark.extended
def test_options_that_the_doctor_may_not_see_are_not_taken_for_defaults(up: SecureUp) -> None:
    password = make(up, "ward")
    admin(up, "rule", "create", "User:ward", "-o", "describe", "--cluster")
    admin(up, "rule", "create", "User:ward", "-o", "describe", "--topic", "salaries")
    script = f'. "{up.client("app.env")}"; export KAFKAESQUE_USER=ward'
    script += f' KAFKAESQUE_PASSWORD_FILE="{password}"; exec "$@"'
    command = ["sh", "-c", script, "sh", *KAFKAESQUE, "doctor", "--json"]

    def unseen() -> list[str]:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
        found: list[str] = json.loads(done.stdout)["unseen"]
        return found

    expected = "options of salaries: no rule allows describe-configs on these topics"
    eventually(lambda: expected in unseen(), "the rules count")
    assert not [each for each in unseen() if "the disk" in each or "listeners" in each]
    admin(up, "rule", "delete", "--principal", "User:ward", "--yes")
    admin(up, "user", "delete", "ward", "--yes")


def test_who_may_not_alter_the_cluster_changes_nobody(up: SecureUp) -> None:
    for words in (
        ("role", "create", "mine"),
        ("user", "disable", "admin"),
        ("user", "list"),
        ("rule", "explain", "-o", "read", "--topic", "salaries"),
    ):
        done = up.command("app", *words)
        assert done.returncode == 1
        assert "on the cluster\n" in done.stderr
    assert told(up, "role", "list") == []


@pytest.mark.extended
def test_the_doctor_looks_at_users_rules_and_certificates(up: SecureUp) -> None:
    def examine(*words: str) -> dict[str, Any]:
        done = up.command("admin", "doctor", "--json", *words)
        assert done.returncode in (0, 1), done.stderr
        found = json.loads(done.stdout)
        assert not [each for each in found["unseen"] if "users" in each or "listeners" in each]
        return {each["check"]: each["names"] for each in found["findings"]}

    for user in ("mia", "una", "worker"):
        up.command("admin", "user", "delete", user, "--yes")
        up.command("admin", "rule", "delete", "--principal", f"User:{user}", "--yes")
    about_access = ("certificate", "listener", "user", "rule")
    assert not [each for each in examine() if each.startswith(about_access)]
    make(up, "idle")
    admin(up, "rule", "create", "User:nobody", "-o", "read", "--topic", "orders-eu")
    found = examine("--certificate", "400")
    assert found["user-without-rules"] == ["idle"]
    assert found["rule-names-nobody"] == ["User:nobody"]
    assert found["certificate-ends"] == ["1"]


def test_access_keys_are_made_listed_and_removed(up: SecureUp) -> None:
    told_once = told(up, "user", "key", "create", "worker")
    key = told_once["access_key_id"]
    assert key.startswith("KFQ")
    assert len(told_once["secret"]) == 40
    exports = admin(up, "user", "key", "create", "worker").splitlines()
    assert [line.partition("=")[0] for line in exports] == [
        "export AWS_ACCESS_KEY_ID",
        "export AWS_SECRET_ACCESS_KEY",
    ]

    def shown() -> list[str]:
        users = told(up, "user", "list")
        return next(each["mechanisms"] for each in users if each["user"] == "worker")

    assert len(shown()) == 2
    assert key in shown()
    assert told_once["secret"] not in admin(up, "user", "list", "--json")
    admin(up, "user", "key", "delete", key, code=2)  # Nobody can be asked.
    admin(up, "user", "key", "delete", key, "--yes")
    eventually(lambda: key not in shown(), "the key is gone")
    assert "no access key" in admin(up, "user", "key", "delete", key, "--yes", code=1)


#: By librdkafka, by our own requests, and by those of the doctor.
WAYS_IN = (("topic", "list"), ("rule", "list"), ("doctor",))


@pytest.mark.parametrize("words", WAYS_IN, ids=" ".join)
def test_what_a_listener_wants_is_said(words: tuple[str, ...], up: SecureUp) -> None:
    clear = refused(up, *words, without="KAFKAESQUE_CA")
    assert f"error: {up.bootstrap} speaks TLS, and KAFKAESQUE_CA is not set\n" in clear
    assert "try:   KAFKAESQUE_CA=FILE" in clear
    assert "PASSWORD" not in clear
    stranger = refused(up, *words, KAFKAESQUE_CA=other_authority(up))
    assert f"error: the certificate of {up.bootstrap} is not trusted: " in stranger
    assert "try:   KAFKAESQUE_CA=FILE" in stranger
    nobody = refused(up, *words, without="KAFKAESQUE_USER KAFKAESQUE_PASSWORD_FILE")
    assert f"error: {up.bootstrap} requires a log-in\n" in nobody
    assert "try:   KAFKAESQUE_USER=NAME and KAFKAESQUE_PASSWORD_FILE=FILE" in nobody


def other_authority(up: SecureUp) -> Path:
    directory = up.data.parent / "other-certs"
    if not directory.exists():
        command = [*KAFKAESQUE, "certs", "init", "--directory", str(directory)]
        subprocess.run(command, capture_output=True, timeout=DEADLINE_S, check=True)
    return directory / "ca.pem"


def test_a_wrong_password_is_tried_once_and_said_to_be_one(up: SecureUp) -> None:
    """A broker answers the fourth failure of a user late, and later ones very late."""
    wrong = up.data / "wrong.password"
    wrong.touch(0o600)
    wrong.write_text("not this one\n")
    for words in (*WAYS_IN, ("publish", "app-greetings", "hello")):
        said = refused(up, *words, KAFKAESQUE_PASSWORD_FILE=wrong)
        assert "error: the broker has refused the log-in of 'app'\ntry:   another passw" in said
