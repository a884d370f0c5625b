"""`kafkaesque transformation`, what docs/transformations.md shows of it, pika, and definitions."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from kafkaesque import Client
from tests.clients.amqp_cluster import new_name
from tests.clients.rabbitmq_cluster import RabbitMqCluster
from tests.clients.test_cli import Cli, cli_at
from tests.documentation.table import blocks_run_by, this_file
from tests.waiting import DEADLINE_S

PAGE = (Path(__file__).parents[2] / "docs" / "transformations.md").read_text()
RENAME = '{"steps": [{"do": "rename", "at": "$.old", "to": "$.new"}]}'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMqCluster]:
    with RabbitMqCluster(3, tmp_path_factory.mktemp("transformations")) as found:
        yield found


@pytest.fixture
def cli(cluster: RabbitMqCluster, tmp_path: Path) -> Cli:
    return cli_at(cluster.bootstrap_servers, tmp_path)


@pytest.mark.extended
def test_the_page_shows_what_commands_print(cli: Cli, tmp_path: Path) -> None:
    (rule,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "v2.json").write_text(rule)
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    found = blocks_run_by(this_file(__file__), "docs/transformations.md")
    assert [each.content for each in found] == [rule, *blocks]
    for part in re.split(r"^\$ kafkaesque ", "".join(blocks), flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        assert cli(*shlex.split(command)).output == output, command
    described = cli("transformation", "describe", "v2").output
    assert 'step 6\t{"do":"set","at":"$.version","value":2}\n' in described
    tried = cli("transformation", "test", "--name", "v2", '{"total": 1}').errors
    assert "the rule is not for this message" in tried
    words = ("transformation", "test", "--name", "v2", "-H", "region=eu", "no JSON")
    assert "goes unchanged to queue unconverted" in cli(*words, code=1).errors
    assert "change it first" in cli("transformation", "delete", "v2", "--yes", code=1).errors
    cli("queue", "delete", "later-shop", "--yes")
    assert "end them first" in cli("transformation", "delete", "v2", "--yes", code=1).errors
    cli("binding", "delete", "orders", "--queue", "new-shop", "-a", "x-transformation=v2")
    cli("transformation", "delete", "v2", "--yes")
    assert cli("transformation", "list", "--json").document == []


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("nowhere.json", "cannot be read"),
        ('{"steps": [{"do": "drop", "at": "properties.user_id"}]}', "does not change"),
    ],
)
def test_a_wrong_rule_is_told_before_any_broker_is_asked(cli: Cli, rule: str, said: str) -> None:
    assert said in cli("transformation", "test", "-r", rule, "x", code=2).errors
    assert said in cli("transformation", "create", "t", "-r", rule, code=2).errors


def test_pika_binds_and_gets_messages_changed_from_any_broker(
    cluster: RabbitMqCluster, cli: Cli
) -> None:
    name, queue, source = new_name("t"), new_name("queue"), new_name("exchange")
    cli("transformation", "create", name, "--rule", RENAME)
    with cluster.connected(1) as first, cluster.connected(3) as third:
        channel, other = first.channel(), third.channel()
        channel.queue_declare(queue, durable=True)
        channel.exchange_declare(source, "topic", durable=True)
        channel.queue_bind(queue, source, "a.#", {"x-transformation": name})
        other.confirm_delivery()
        properties = pika.BasicProperties(delivery_mode=2, headers={"n": 1}, message_id="m")
        other.basic_publish(source, "a.b", b'{"old": 1}', properties, mandatory=True)
        other.basic_publish(source, "a.b", b"no JSON", properties)
        got = [channel.basic_get(queue, auto_ack=True) for _ in range(2)]
        assert [body for _, _, body in got] == [b'{"new":1}', b"no JSON"]
        assert [each.message_id for _, each, _ in got] == ["m", "m"]
        assert got[0][1].headers == {"n": 1}
        assert got[1][1].headers["x-transformation-failed"].startswith(f"{name}: ")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no transformation"):
            channel.queue_bind(queue, source, "b", {"x-transformation": "nowhere"})
    cli("exchange", "delete", source)
    cli("transformation", "delete", name, "--yes")


def test_a_rule_is_tried_with_a_message_of_amqp_that_stays_in_its_queue(
    cluster: RabbitMqCluster, cli: Cli
) -> None:
    queue = new_name("queue")
    steps = [
        {"do": "rename", "at": "n", "to": "m"},
        {"do": "template", "at": "properties.type", "text": "of {properties.message_id}"},
        *json.loads(RENAME)["steps"],
    ]
    with cluster.connected(2) as connection, connection.channel() as channel:
        channel.queue_declare(queue, durable=True)
        channel.confirm_delivery()
        properties = pika.BasicProperties(delivery_mode=2, headers={"n": 1}, message_id="id")
        channel.basic_publish("", queue, b'{"old": 1}', properties)
        words = ("transformation", "test", "--queue", queue, "--rule")
        found = cli(*words, json.dumps({"steps": steps}), "--json").document
        assert found == {
            "applies": True,
            "headers": {"m": "1"},
            "properties": {"delivery_mode": "2", "message_id": "id", "type": "of id"},
            "body": '{"new":1}',
        }
        cast = {"do": "cast", "at": "properties.message_id", "to": "number"}
        fails = json.dumps({"steps": [cast]})
        assert "cannot become a number" in cli(*words, fails, code=1).errors
        assert "not both" in cli(*words, RENAME, "a body", code=2).errors
        _, told, body = channel.basic_get(queue, auto_ack=True)
        assert (told.headers, body) == ({"n": 1}, b'{"old": 1}')


def test_the_python_client_gets_messages_changed_on_their_way_out(
    cluster: RabbitMqCluster, cli: Cli
) -> None:
    name, queue = new_name("t"), new_name("queue")
    cli("transformation", "create", name, "--rule", RENAME)
    with Client(cluster.bootstrap_servers) as client:
        client.create_queue(queue, transformation_out=name)
        client.put_many(queue, [b"no JSON", {"old": 1}])
        message = client.get(queue, timeout=DEADLINE_S)
        assert (message.value, message.attempt) == (b'{"new":1}', 1)
        message.release()
        message = client.get(queue, timeout=DEADLINE_S)
        assert message.json() == {"new": 1}
        message.ack()
        assert client.poll(queue) is None
    parked = cli("queue", "peek", queue).output
    assert "no JSON" in parked
    assert f"{name}: the body is no JSON" in parked
    cli("queue", "delete", queue, "--yes")
    cli("transformation", "delete", name, "--yes")


def test_definitions_have_them(cluster: RabbitMqCluster, cli: Cli, tmp_path: Path) -> None:
    file, vhost, other = tmp_path / "shop.json", new_name("from"), new_name("to")
    for each in (vhost, other):
        cli("vhost", "create", each)
    cli("queue", "create", "failed", "--vhost", vhost)
    rule = json.dumps({**json.loads(RENAME), "failures": "failed"})
    cli("transformation", "create", "t", "--rule", rule, "--vhost", vhost)
    words = ("--queue", "failed", "-a", "x-transformation=t", "--vhost", vhost)
    cli("binding", "create", "amq.fanout", *words)
    cli("definitions", "export", str(file), "--vhost", vhost)
    cli("definitions", "import", str(file), "--vhost", other)
    (found,) = cli("transformation", "list", "--vhost", other, "--json").document
    assert (found["rule"], found["bindings"]) == (json.loads(rule), 1)
