"""Apache Kafka's tools with a cluster of `kafkaesque up --secure`, by the files that it writes.

    scripts/peers --up-secure

The user app produces and consumes, and is refused what has no name of its prefix; the administrator
makes a user, a rule and an option, and takes them away.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.apache_kafka import tool_command
from bench.maven import PeerUnavailableError
from bench.peer_tools import EXIT_FAILED, EXIT_UNAVAILABLE
from bench.tools import TOOL_TIMEOUT_S, ToolError, Tools
from kafkaesque.cli.broker_ports import unused_ports
from kafkaesque.cli.private_file import write_private

BROKERS: Final = 1
TOPIC, FORBIDDEN, GROUP = "app-orders", "salaries", "app-readers"
USER, PASSWORD = "mia", "a password for tests"
_USED: Final = (
    "kafka-topics",
    "kafka-console-producer",
    "kafka-console-consumer",
    "kafka-consumer-groups",
    "kafka-acls",
    "kafka-configs",
)
_STOP_TIMEOUT_S: Final = 60.0


@contextmanager
def _secured(directory: Path) -> Iterator[str]:
    """Run `kafkaesque up --secure` while the block does; return its Kafka port's address."""
    kafka, text, peer, admin = unused_ports(4)
    words = ["up", "--secure", "--json", "--brokers", str(BROKERS), "--data", str(directory)]
    words += ["--port", str(kafka), "--text-port", str(text)]
    words += ["--peer-port", str(peer), "--admin-port", str(admin)]
    with subprocess.Popen(
        [sys.executable, "-m", "kafkaesque.cli.app", *words], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line or json.loads(line)["event"] != "ready":
                raise ToolError(f"kafkaesque up --secure did not start: {line}")
            yield f"127.0.0.1:{kafka}"
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _token_of_admin(clients: Path) -> Path:
    """Return a file of the administrator for Java: a token, as no client of Kafka shows codes."""
    path = clients.parent / "admin.token.properties"
    script = f'. "{clients / "admin.env"}" && exec "$@"'
    words = [sys.executable, "-m", "kafkaesque.cli.app", "token", "create", str(path)]
    done = subprocess.run(
        ["sh", "-c", script, "sh", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ToolError(f"no token for the administrator: {done.stderr}")
    return path


class _Steps:
    """Two users, each with the file that `up --secure` has written for it."""

    def __init__(self, directory: Path, bootstrap_servers: str) -> None:
        clients = directory / "clients"
        self._directory = directory
        self._tools = Tools(bootstrap_servers)
        self._app = ("--command-config", str(clients / "app.java.properties"))
        self._admin = ("--command-config", str(_token_of_admin(clients)))

    def go(self) -> None:
        """Do all steps, and print what was done."""
        self._use_console()
        self._use_rules()
        self._use_users()
        self._use_options()

    def _use_console(self) -> None:
        tools = self._tools
        create = ("--create", "--partitions", "1", "--replication-factor", "1", "--topic")
        tools.expect("kafka-topics", *create, TOPIC, *self._app, says="Created topic")
        tools.expect("kafka-topics", *create, FORBIDDEN, *self._admin, says="Created topic")
        listed = tools.run("kafka-topics", "--list", *self._app)
        if listed.split() != [TOPIC]:
            raise ToolError(f"app sees {listed}")
        tools.run("kafka-console-producer", "--topic", TOPIC, *self._app, text="one\ntwo\n")
        self._read("app", self._app, "one\ntwo")
        where = ("--describe", "--group", GROUP)
        tools.expect("kafka-consumer-groups", *where, *self._app, says=TOPIC)
        self._refused("kafka-console-producer", "--topic", FORBIDDEN, *self._app, text="x\n")
        read = ("--topic", FORBIDDEN, "--from-beginning", "--timeout-ms", "5000")
        self._refused("kafka-console-consumer", *read, *self._app)
        print(
            "kafka-topics, kafka-console-*, kafka-consumer-groups: app and its prefix", flush=True
        )

    def _read(self, user: str, config: tuple[str, str], wanted: str, group: str = GROUP) -> None:
        count = str(len(wanted.split()))
        options = ("--from-beginning", "--max-messages", count, "--timeout-ms", "60000")
        where = ("--topic", TOPIC, "--group", group)
        printed = self._tools.run("kafka-console-consumer", *where, *options, *config)
        if printed.strip() != wanted:
            raise ToolError(f"{user} reads {printed!r}")

    def _use_rules(self) -> None:
        tools = self._tools
        self._refused("kafka-acls", "--list", *self._app)
        allowed = ("--allow-principal", f"User:{USER}", "--operation", "Read")
        prefix = ("--topic", "app-", "--group", "mia-", "--resource-pattern-type", "prefixed")
        tools.expect("kafka-acls", "--add", *allowed, *prefix, *self._admin, says="Adding ACLs")
        shown = tools.expect("kafka-acls", "--list", *self._admin, says=f"User:{USER}")
        if "User:app" not in shown:
            raise ToolError(f"the first rules are not shown: {shown}")
        print("kafka-acls: rules by the administrator, and not by app", flush=True)

    def _use_users(self) -> None:
        tools = self._tools
        entity = ("--entity-type", "users", "--entity-name", USER)
        added = f"SCRAM-SHA-512=[iterations=8192,password={PASSWORD}]"
        change = ("--alter", "--add-config", added)
        self._refused("kafka-configs", *entity, *change, *self._app)
        tools.expect("kafka-configs", *entity, *change, *self._admin, says="Completed updating")
        tools.expect("kafka-configs", *entity, "--describe", *self._admin, says="SCRAM-SHA-512")
        # A user's file is the application's with another name and password.
        own = Path(self._app[1]).read_text()
        secret = (self._directory / "app.password").read_text().strip()
        changed = own.replace('username="app"', f'username="{USER}"').replace(secret, PASSWORD)
        path = self._directory / "mia.properties"
        write_private(path, changed.encode())
        mia = ("--command-config", str(path))
        self._read(USER, mia, "one\ntwo", "mia-readers")
        self._refused("kafka-console-producer", "--topic", TOPIC, *mia, text="x\n")
        gone = ("--alter", "--delete-config", "SCRAM-SHA-512")
        tools.expect("kafka-configs", *entity, *gone, *self._admin, says="Completed updating")
        self._refused("kafka-topics", "--list", *mia)
        print("kafka-configs: a user that reads, may not write, and is gone", flush=True)

    def _use_options(self) -> None:
        tools = self._tools
        change = ("--alter", "--add-config", "retention.ms=3600000")
        for config, topic in ((self._app, TOPIC), (self._admin, FORBIDDEN)):
            entity = ("--entity-type", "topics", "--entity-name", topic)
            tools.expect("kafka-configs", *entity, *change, *config, says="Completed updating")
            said = "retention.ms=3600000"
            tools.expect("kafka-configs", *entity, "--describe", *config, says=said)
        entity = ("--entity-type", "topics", "--entity-name", FORBIDDEN)
        self._refused("kafka-configs", *entity, *change, *self._app)
        print("kafka-configs: options of topics, each by whoever may", flush=True)

    def _refused(self, tool: str, *arguments: str, text: str = "") -> None:
        """Run a tool; it has to say that it was not allowed in, or not to do that."""
        where = ("--bootstrap-server", self._tools.bootstrap_servers)
        done = subprocess.run(
            [*tool_command(tool), *where, *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=TOOL_TIMEOUT_S,
            check=False,
        )
        printed = done.stdout + done.stderr
        words = ("authoriz", "authentication", "Authentication", "TopicAuthorization")
        if not any(word in printed for word in words):
            raise ToolError(f"{tool} {' '.join(arguments)} is not refused: {printed}")


def use_up_secure() -> None:
    """Do all of it.

    Raises:
        PeerUnavailableError: there is no JDK, or Maven cannot get the tools.
        ToolError: a tool failed, or was let do what it must not.
    """
    for tool in _USED:
        tool_command(tool)
    with tempfile.TemporaryDirectory(prefix="kafkaesque-peers-") as folder:
        directory = Path(folder) / "secured"
        with _secured(directory) as bootstrap_servers:
            _Steps(directory, bootstrap_servers).go()


def main() -> int:
    """Run it, and say how it went."""
    try:
        use_up_secure()
    except PeerUnavailableError as error:
        print(f"Kafka's tools with a secured cluster are skipped: {error}", file=sys.stderr)
        return EXIT_UNAVAILABLE
    except (ToolError, subprocess.TimeoutExpired) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
