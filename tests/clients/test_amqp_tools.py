"""The command-line tools of Debian's amqp-tools (rabbitmq-c), unchanged."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.clients.amqp_cluster import AmqpCluster, new_name
from tests.waiting import DEADLINE_S

TOOLS = ("amqp-publish", "amqp-consume", "amqp-get", "amqp-declare-queue", "amqp-delete-queue")

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, TOOLS)),
    reason="Debian's package amqp-tools is not installed: scripts/test installs it",
)


class Tools:
    """Runs the tools at a broker."""

    def __init__(self, url: str) -> None:
        self.url = url

    def run(self, tool: str, *words: str, code: int = 0, stdin: str = "") -> str:
        """Run a tool; return what it prints, on both ways."""
        done = subprocess.run(
            [tool, "--url", self.url, *words],
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == code, done.stdout
        return done.stdout


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    with AmqpCluster(1, tmp_path_factory.mktemp("tools")) as cluster:
        yield Tools(cluster.url())


def test_a_message_is_published_and_fetched(tools: Tools) -> None:
    name = new_name("tools")
    assert tools.run("amqp-declare-queue", "-d", "-q", name) == f"{name}\n"
    words = ("-r", name, "-p", "-C", "text/plain", "-H", "colour: green")
    tools.run("amqp-publish", *words, "-b", "two tickets")
    assert tools.run("amqp-get", "-q", name) == "two tickets"
    # Nothing is left: that is what its exit code 2 says.
    assert tools.run("amqp-get", "-q", name, code=2) == ""
    assert tools.run("amqp-delete-queue", "-q", name) == "0\n"


def test_lines_are_consumed_one_after_the_other(tools: Tools) -> None:
    name = new_name("lines")
    tools.run("amqp-declare-queue", "-d", "-q", name)
    lines = [f"line {number}\n" for number in range(20)]
    tools.run("amqp-publish", "-r", name, "-l", stdin="".join(lines))
    # A message is acknowledged when the command that has it succeeds.
    seen = tools.run("amqp-consume", "-q", name, "-c", "20", "-p", "3", "cat")
    assert seen == "".join(lines)
    assert tools.run("amqp-delete-queue", "-q", name) == "0\n"


def test_a_queue_is_bound_and_deleted_with_what_it_has(tools: Tools) -> None:
    name = new_name("bound")
    tools.run("amqp-declare-queue", "-d", "-q", name)
    tools.run("amqp-publish", "-e", "amq.topic", "-r", "nobody.there", "-b", "lost")
    for number in range(3):
        tools.run("amqp-publish", "-r", name, "-b", str(number))
    refused = tools.run("amqp-delete-queue", "-e", "-q", name, code=1)
    assert "not empty" in refused
    assert tools.run("amqp-delete-queue", "-q", name) == "3\n"
    missing = tools.run("amqp-get", "-q", name, code=1)
    assert f"no queue '{name}' in vhost '/'" in missing


def test_a_consumer_binds_a_queue_of_its_own(tools: Tools) -> None:
    words = ["-e", "amq.topic", "-r", "orders.#", "-c", "1", "cat"]
    consumer = subprocess.Popen(
        ["amqp-consume", "--url", tools.url, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert consumer.stderr is not None
        # It says so when its queue is bound.
        consumer.stderr.readline()
        tools.run("amqp-publish", "-e", "amq.topic", "-r", "orders.new", "-b", "an order")
        printed, _ = consumer.communicate(timeout=DEADLINE_S)
        assert printed == "an order"
        assert consumer.returncode == 0
    finally:
        consumer.kill()
        consumer.communicate()
