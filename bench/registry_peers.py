"""Confluent's serializers and client for Java, unchanged, with our schema registry.

    scripts/peers --registry

`bench/java/Registry.java` writes and reads with Kafka's clients for Java and Confluent's
`KafkaAvroSerializer` and `KafkaAvroDeserializer`, at three brokers of ours of which one dies in the
end, and meets Confluent's serializers for Python there. Then it does some of it again where clients
log in, at `kafkaesque up --secure`.

Confluent does not publish its artifacts on Maven Central. Snowflake's connector is there, and
contains those for Avro as they are. Those for JSON Schema and Protocol Buffers are not to be had:
of these only the client takes part.

It needs a JDK and, once, Maven, which fetches 164 MB. If one of them cannot be had, it says so and
ends with 3.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from bench.apache_kafka import program_command
from bench.client_program import FailedError, run_program
from bench.maven import ALONE, PeerUnavailableError, dependency, fetch_jars
from bench.registry_python import Python, WrongRecordError
from tests.clients.registry_cluster import RegistryCluster
from tests.clients.test_registry_secure import SecureRegistry
from tests.waiting import eventually

#: Contains Confluent's 7.7.0.
CONNECTOR_VERSION: Final = "2.5.0"
EXIT_FAILED: Final = 1
EXIT_UNAVAILABLE: Final = 3
BROKERS: Final = 3
_SOURCE: Final = Path(__file__).parent / "java" / "Registry.java"
_ASK: Final = "ask "
#: The user of `SecureRegistry`, who has a rule on subjects, and here one on topics, too.
_USER: Final = "clerk"
_RULE: Final = ("-o", "all", "--topic", "shop-", "--prefix")

#: Does what a program asks for.
Answer = Callable[[dict[str, Any]], None]


def java_command() -> list[str]:
    """Return the command that compiles and runs the program.

    Raises:
        PeerUnavailableError: Java, its compiler, Maven or the artifacts cannot be had here.
    """
    jars = fetch_jars(
        f"confluent-serializers-{CONNECTOR_VERSION}",
        dependency("com.snowflake", "snowflake-kafka-connector", CONNECTOR_VERSION, ALONE),
        "Confluent's serializers for Java",
    )
    return program_command(_SOURCE, jars)


def run_asking(command: Sequence[str], answer: Answer) -> None:
    """Run the program to its end, and do what it asks for.

    Raises:
        FailedError: it has failed, or did not end in time.
    """

    def on_line(line: str) -> bool:
        if not line.startswith(_ASK):
            print(f"  {line}", flush=True)
            return False
        try:
            answer(json.loads(line.removeprefix(_ASK)))
        except WrongRecordError as error:
            raise FailedError(str(error)) from None
        return True

    run_program(command, on_line)


def use_open(command: Sequence[str]) -> None:
    """Run it at three brokers where everybody may do everything."""
    with (
        tempfile.TemporaryDirectory(prefix="registry-peers-") as folder,
        RegistryCluster(BROKERS, Path(folder)) as cluster,
    ):
        urls = [cluster.url(number) for number in range(1, BROKERS + 1)]
        python = Python(cluster.bootstrap_servers, urls[1])

        def answer(asked: dict[str, Any]) -> None:
            if asked["do"] == "kill":
                print(f"  kills broker {asked['broker']}", flush=True)
                cluster.brokers[asked["broker"]].kill()
            else:
                python.answer(asked)

        run_asking([*command, "open", cluster.bootstrap_servers, *urls], answer)


def use_secured(command: Sequence[str]) -> None:
    """Run it at a broker of `kafkaesque up --secure`, as a user with a rule."""
    with tempfile.TemporaryDirectory(prefix="registry-peers-") as folder:
        secure = SecureRegistry(Path(folder) / "data")
        try:
            secure.prepare()
            done = secure.up.command("admin", "rule", "create", f"User:{_USER}", *_RULE)
            if done.returncode:
                raise FailedError(f"no rule: {done.stderr}")
            login = f"{_USER}:{secure.password}"
            eventually(lambda: secure.status(login, "shop-first") == 200, "the rule is known")
            words = [secure.up.bootstrap, secure.url, secure.ca, _USER, secure.password]
            run_asking([*command, "secured", *words], lambda _: None)
        finally:
            secure.up.close()


def main() -> int:
    """Run both; return the exit status."""
    if sys.argv[1:]:
        print(__doc__)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    try:
        command = java_command()
    except PeerUnavailableError as error:
        print(f"LEFT OUT: {error}")
        return EXIT_UNAVAILABLE
    failed = 0
    for name, use in {"three brokers": use_open, "up --secure": use_secured}.items():
        print(f"Confluent's serializers for Java, {name}:", flush=True)
        try:
            use(command)
            print("  ok", flush=True)
        except FailedError as error:
            failed += 1
            print(f"  FAILED: {error}", flush=True)
    return EXIT_FAILED if failed else 0


if __name__ == "__main__":
    sys.exit(main())
