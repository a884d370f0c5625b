"""`kafkaesque policy`, what docs/exchanges.md shows of it, and policies by RabbitMQ's API."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.amqp_cluster import new_name
from tests.clients.rabbitmq_cluster import RabbitMqCluster
from tests.clients.test_cli import Cli, cli_at
from tests.documentation.table import blocks_run_by, this_file
from tests.waiting import eventually

PAGE = Path(__file__).parents[2] / "docs" / "exchanges.md"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMqCluster]:
    with RabbitMqCluster(1, tmp_path_factory.mktemp("policies")) as found:
        yield found


@pytest.fixture
def cli(cluster: RabbitMqCluster) -> Cli:
    return cli_at(cluster.bootstrap_servers)


def test_the_page_shows_what_commands_print(cli: Cli) -> None:
    (block,) = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert [each.content for each in blocks_run_by(this_file(__file__), "docs/exchanges.md")] == [
        block
    ]
    for part in re.split(r"^\$ kafkaesque ", block, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        assert cli(*shlex.split(command)).output == output, command
    cli("policy", "delete", "limit", "--operator", "--yes")


def test_a_policy_holds_for_a_queue_and_is_shown(cluster: RabbitMqCluster, cli: Cli) -> None:
    queue, policy = new_name("short"), new_name("policy")
    cli("queue", "create", queue)
    words = ("-p", f"^{queue}", "-s", "max-length=2", "--priority", "5", "--apply-to", "queues")
    made = cli("policy", "create", policy, *words, "--json").document
    assert made["definition"] == {"max-length": 2}
    found = cluster.ask("GET", f"/queues/%2F/{queue}").json()
    assert (found["policy"], found["effective_policy_definition"]) == (policy, {"max-length": 2})
    body = {"pattern": f"^{queue}", "definition": {"max-length": 1}, "apply-to": "queues"}
    path = f"/operator-policies/%2F/{policy}"
    assert cluster.ask("PUT", path, body).status_code == 201
    assert cluster.ask("PUT", path, body).status_code == 204
    assert cluster.ask("GET", path).json()["definition"] == {"max-length": 1}
    found = cluster.ask("GET", f"/queues/%2F/{queue}").json()
    assert found["operator_policy"] == policy
    assert found["effective_policy_definition"] == {"max-length": 1}

    def is_short() -> bool:
        cli("queue", "put", queue, "a", "b", "c")
        return bool(cluster.ask("GET", f"/queues/%2F/{queue}").json()["messages"] == 1)

    eventually(is_short, "the queue has one message")
    listed = cli("policy", "list", "--json").document
    own = [each for each in listed if each["name"] == policy]
    assert [(each["name"], each["is_operator"]) for each in own] == [
        (policy, False),
        (policy, True),
    ]
    cli("policy", "delete", policy, "--yes")
    assert cluster.ask("DELETE", path).status_code == 204
    assert cluster.ask("GET", f"/queues/%2F/{queue}").json()["policy"] is None
    # Other tests have policies of their own.
    assert policy not in [each["name"] for each in cluster.ask("GET", "/policies").json()]


def test_definitions_go_out_and_come_in(cluster: RabbitMqCluster, cli: Cli, tmp_path: Path) -> None:
    vhost, file = new_name("from"), tmp_path / "shop.json"
    cli("vhost", "create", vhost)
    cli("exchange", "create", "shop", "--type", "topic", "--vhost", vhost)
    for number in range(3):
        cli("queue", "create", f"q{number}", "--vhost", vhost, "-c", f"max.length={number + 1}")
        key = f"key.{number}"
        cli("binding", "create", "shop", "-k", key, "--queue", f"q{number}", "--vhost", vhost)
    cli("policy", "create", "p", "-p", ".", "-s", "message-ttl=90000", "--vhost", vhost)
    words = ("definitions", "export", str(file), "--vhost", vhost)
    assert cli(*words).output == f"wrote 1 exchange, 3 queues and 3 bindings to {file}\n"
    assert file.stat().st_mode & 0o77 == 0
    other = new_name("to")
    cli("vhost", "create", other)
    for _ in range(2):
        done = cli("definitions", "import", str(file), "--vhost", other, "--json").document
        assert (done["imported"]["queues"], done["imported"]["policies"]) == (3, 1)
    shown = cluster.ask("GET", f"/queues/{other}/q2").json()
    assert (shown["arguments"], shown["policy"]) == ({"x-max-length": 3}, "p")
    assert cli("definitions", "export", "--vhost", other).document == json.loads(file.read_text())
    # A whole cluster's comes in as well, where all of it is there.
    whole = tmp_path / "all.json"
    cli("definitions", "export", str(whole))
    cli("definitions", "import", str(whole))
    for each in (vhost, other):
        cli("vhost", "delete", each, "--yes")
    cli("definitions", "import", str(whole))
    assert cluster.ask("GET", f"/queues/{vhost}/q1").status_code == 200


def test_topic_permissions_come_with_their_users(
    cluster: RabbitMqCluster, cli: Cli, tmp_path: Path
) -> None:
    file, user = tmp_path / "file.json", new_name("user")
    topic = {"user": user, "vhost": "/", "exchange": "amq.topic", "write": "^a", "read": "^a"}
    users = [{"name": user, "password_hash": "", "tags": []}]
    file.write_text(json.dumps({"topic_permissions": [topic], "users": users}))
    told = cli("definitions", "import", str(file), "--json").document
    assert told["imported"]["topic_permissions"] == 1
    cli("definitions", "export", str(file))
    assert topic in json.loads(file.read_text())["topic_permissions"]
    assert cluster.ask("GET", f"/users/{user}/topic-permissions").json() == [topic]


def test_what_is_left_out_of_a_file_is_told(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    parameters = [
        {"component": component, "vhost": "/", "name": f"{number}", "value": {}}
        for number, component in enumerate(("shovel", "shovel", "vhost-limits"))
    ]
    file.write_text(json.dumps({"parameters": parameters}))
    told = cli("definitions", "import", str(file)).errors
    assert "left out: 2 parameters of shovel" in told
    assert "left out: 1 parameter of vhost-limits" in told


def test_a_file_that_is_none_is_told(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    assert "cannot be read" in cli("definitions", "import", str(file), code=1).errors
    for text, said in (("{", "is no JSON"), ("[]", "is no file of def"), ("{}", "is no file")):
        file.write_text(text)
        assert said in cli("definitions", "import", str(file), code=1).errors
    file.write_text('{"queues": [{"name": "q", "vhost": "nowhere"}]}')
    assert "no virtual host 'nowhere'" in cli("definitions", "import", str(file), code=2).errors


def test_mistakes_are_told(cluster: RabbitMqCluster, cli: Cli) -> None:
    assert (
        "no setting 'max-lenght'"
        in cli("policy", "create", "p", "-p", ".", "-s", "max-lenght=2", code=2).errors
    )
    assert "no pattern" in cli("policy", "create", "p", "-p", "(", "-s", "expires=9", code=2).errors
    assert "there is no policy" in cli("policy", "delete", "p", "--yes", code=1).errors
    assert "virtual host" in cli("policy", "list", "--vhost", "nowhere", code=1).errors
    body = {"pattern": ".", "definition": {"max-length": "many"}}
    told = cluster.ask("PUT", "/policies/%2F/p", body)
    assert told.status_code == 400
    assert "max-length" in told.json()["reason"]
    assert cluster.ask("GET", "/policies/%2F/p").status_code == 404
