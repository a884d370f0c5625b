"""The command line as a whole: what it lists, what it costs to ask, how mistakes are answered."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from typer.main import get_command
from typer.testing import CliRunner

from kafkaesque import cli
from kafkaesque.cli import alive_brokers, arguments, replica_moves
from kafkaesque.cli.app import app
from kafkaesque.cli.kafka import outage_teller
from kafkaesque.cli.lazy_group import COMMANDS
from tests.unit.cli.test_replica_moves import LED

NOBODY = "127.0.0.1:1"
#: Words in capitals: in the command line's sources they are headers of columns.
HEADERS = re.compile(r'"([A-Z][A-Z/-]+(?: [A-Z/-]+)*)"')
#: More than Kafka's messages have room for.
BIG = "99999999999"


def run(*arguments: str, text: str = "") -> tuple[int, str, str]:
    """Run the command line in this process; return exit code, output and errors."""
    done = CliRunner().invoke(app, list(arguments), input=text)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def test_help_lists_every_command_with_its_one_line() -> None:
    code, output, _ = run("--help")
    assert code == 0
    for name, line in COMMANDS.items():
        assert name in output
        assert line in output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_subcommand_has_help_with_an_example(name: str) -> None:
    command = get_command(importlib.import_module(f"kafkaesque.cli.commands.{name}").app)
    subcommands = getattr(command, "commands", {})
    for words in [[name, each] for each in subcommands] or [[name]]:
        code, output, _ = run(*words, "--help")
        assert code == 0
        assert "Example:\n" in output, words
        assert f"kafkaesque {' '.join(words)}" in output.split("Example:")[1], words


def test_asking_for_help_loads_neither_a_client_nor_a_screen_nor_a_broker() -> None:
    program = (
        "import sys; from kafkaesque.cli.app import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print(*sorted(m for m in sys.modules if m.split('.')[0] in"
        " ('rich', 'confluent_kafka', 'uvloop') or m.startswith('kafkaesque.')), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=90, check=True
    )
    loaded = done.stderr.split()
    assert [name for name in loaded if not name.startswith("kafkaesque.cli")] == []
    assert "kafkaesque.cli.commands.up" not in loaded


def test_the_command_of_a_broker_never_loads_the_client() -> None:
    program = (
        "import sys, kafkaesque.cli.commands.broker, kafkaesque.server.main\n"
        "print(*(m for m in sys.modules if m.startswith('confluent_kafka')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=90, check=True
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("words", "meant"), [("tpoic", "'topic'"), ("consum", "'consume'"), ("xyzzy", "--help")]
)
def test_an_unknown_command_is_wrong_usage_and_names_the_nearest(words: str, meant: str) -> None:
    code, _, errors = run(words)
    assert code == 2
    assert meant in errors


@pytest.mark.parametrize(
    "words",
    [
        ["cluster", "status"],
        ["topic", "list"],
        ["topic", "create", "t"],
        ["publish", "t", "m"],
        ["consume", "t"],
        ["group", "list"],
        ["group", "describe", "g"],
        ["txn", "list"],
        ["txn", "describe", "t"],
        ["txn", "producers", "t"],
        ["txn", "abort", "t"],
        ["cluster", "wait", "--timeout", "0"],
        ["user", "list"],
        ["role", "list"],
        ["rule", "list"],
        ["key", "list"],
        ["key", "rewrap"],
    ],
    ids=" ".join,
)
def test_where_nobody_answers_the_address_is_named_and_the_exit_code_is_3(words: list[str]) -> None:
    code, output, errors = run(*words, "--bootstrap-server", NOBODY)
    assert code == 3
    assert output == ""
    assert f"no broker answers at {NOBODY} (connection refused)" in errors
    assert "kafkaesque up" in errors
    assert "rdkafka" not in errors


@pytest.mark.parametrize("words", [["list"], ["rotate", "t"]], ids=" ".join)
def test_keys_without_an_admin_port_reach_nobody(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alive_brokers, "alive_addresses", lambda _: [])
    code, output, errors = run("key", *words)
    assert (code, output) == (3, "")
    assert errors.startswith("error: no broker has an admin port that answers\ntry:   admin.port")


def test_doctor_ends_with_3_where_nobody_answers() -> None:
    """As all commands do: 1 is that something is wrong with a cluster that could be looked at."""
    code, output, errors = run("doctor", "--bootstrap-server", NOBODY)
    assert (code, output) == (3, "")
    assert errors.startswith(f"error: no broker answers at {NOBODY} (connection refused)\n")


@pytest.mark.parametrize("address", ["localhost", "10.0.0.7", "host-a:9092,host-b", "[::1]"])
def test_an_address_without_a_port_is_not_taken_for_another_cluster_s(address: str) -> None:
    code, output, errors = run("topic", "list", "--bootstrap-server", address)
    assert (code, output) == (2, "")
    host = address.rpartition(",")[2]
    assert errors == (f"error: {host!r} has no port\ntry:   --bootstrap-server {host}:9092\n")


@pytest.mark.parametrize("address", ["host:", ":9092", "host:99999", "host:x", ""])
def test_an_address_that_is_none_is_wrong_usage(address: str) -> None:
    code, _, errors = run("topic", "list", "--bootstrap-server", address)
    assert code == 2
    assert "is not the address of a broker" in errors


WRONG = [
    (["topic", "create", "t", "--config", "novalue"], "is not name=value"),
    (["topic", "create", "t", "--partitions", "0"], "--partitions"),
    (["topic", "create", "t", "--partitions", "10000000"], "is not in the range 1<=x<=100000"),
    (["topic", "create", "t", "-r", "40000"], "is not in the range 1<=x<=10000"),
    (["topic", "alter", "t", "--partitions", "10000000"], "is not in the range 1<=x<=100000"),
    (["topic", "reassign", "t", "-p", BIG, "--replicas", "1"], "is not in the range"),
    (["topic", "reassign", "t", "-p", BIG, "--cancel"], "is not in the range"),
    (["topic", "reassign", "t", "--replicas", f"{BIG},2,3"], "is no list of brokers"),
    (["topic", "reassign", "t", "--replicas", "2,,3"], "is no list of brokers"),
    (["topic", "elect", "t", "--partition", BIG], "is not in the range"),
    (["cluster", "remove", BIG], "is not in the range"),
    (["cluster", "controllers", "add", BIG], "is not in the range"),
    (["cluster", "controllers", "remove", BIG], "is not in the range"),
    (["topic", "alter", "t"], "nothing to alter"),
    (["topic", "create", "no spaces"], "topic name 'no spaces' has characters other than"),
    (["topic", "create", "x" * 250], "at most 249 characters, this has 250"),
    (["publish", "no spaces", "m"], "topic name 'no spaces' has characters other than"),
    (["publish", "", "m"], "a topic cannot be called ''"),
    (["publish", "..", "m"], "a topic cannot be called '..'"),
    (["publish", "t", "m", "--keep-partitions"], "goes with --format json"),
    (["consume", "a/b"], "topic name 'a/b' has characters other than"),
    (["consume", "t", "--group", ""], "a group's name is not empty"),
    (["publish", "t", "m", "--acks", "2"], "--acks 2 is not one of"),
    (["publish", "t", "m", "--compression", "rar"], "--compression rar is not one of"),
    (["publish", "t", "m", "--header", "h"], "is not name=value"),
    (["publish", "t", "m", "--file", "x"], "not both"),
    (["publish", "t", "--key-separator", ""], "separates nothing"),
    (["publish", "t", "--key-separator", ":", "--format", "json"], "no meaning"),
    (["publish", "t", "--format", "xml"], "--format"),
    (["consume", "t", "--offset", "soon"], "neither an offset nor a time"),
    (["consume", "t", "--offset", "1", "--from-beginning"], "contradict"),
    (["consume", "t", "--group", "g", "--offset", "1"], "a group decides"),
    (["consume", "t", "--group", "g", "--partition", "1"], "a group decides"),
    (["consume", "t", "--max", "0"], "--max"),
    (["group", "reset-offsets", "g", "--topic", "t"], "give --to or --shift"),
    (["group", "reset-offsets", "g", "--topic", "t", "--to", "1", "--shift", "1"], "give --to or"),
    (["group", "reset-offsets", "g", "--to", "1"], "give --topic or --all-topics"),
    (["group", "reset-offsets", "g", "--all-topics", "-t", "t", "--to", "1"], "--all-topics"),
    (["group", "reset-offsets", "g", "-t", "t", "--to", "1960-01-01"], "lies before 1970"),
    (["group", "reset-offsets", "g", "-t", "t", "--to", "P1M"], "neither an offset nor a time"),
    (["group", "reset-offsets", "g", "-t", "t", "--shift", "9" * 20], "no log is as long as"),
    (["group", "describe", "g", "--isolation", "all"], "--isolation"),
    (["txn", "list", "--state", "Open"], "--state Open is not one of Empty, Ongoing"),
    (["txn", "list", "--open-for", "1e300"], "is not in the range"),
    (["txn", "producers", "t:x"], "is not a topic with partitions"),
    (["txn", "producers", "no spaces"], "topic name 'no spaces' has characters other than"),
    (["txn", "abort"], "give a transactional id, or"),
    (["txn", "abort", "t", "--topic", "x"], "give a transactional id, or"),
    (["txn", "abort", "--topic", "x", "--partition", "0"], "give a transactional id, or"),
    (["log", "dump", "/nonexistent"], "kafkaesque log dump kafkaesque-data/broker-1"),
    (["log", "verify", "/nonexistent"], "kafkaesque log verify kafkaesque-data\n"),
    (["topic", "delete", "t"], "topic delete asks first, and standard input is no terminal"),
    (["topic", "delete", "t", "--if-exists"], "try:   the same with --yes\n"),
    (["topic", "elect", "t", "--unclean"], "topic elect --unclean asks first"),
    (["user", "delete", "u"], "user delete asks first, and standard input is no terminal"),
    (["user", "totp", "remove", "u"], "user totp remove asks first"),
    (["role", "delete", "r"], "role delete asks first"),
    (["rule", "delete", "--principal", "User:u"], "rule delete asks first"),
    (["key", "shred", "t", "1"], "key shred asks first"),
    (["rule", "create", "mia", "-o", "read", "--topic", "t"], "'mia' is no principal"),
    (["rule", "create", "tom", "-o", "read", "--cluster"], "try:   User:tom\n"),
    (["rule", "list", "--principal", "Group:g"], "'Group:g' is no principal"),
    (["user", "alter", "u"], "nothing to change"),
    (["sim", "run"], "one of --seed and --seeds"),
    (["sim", "run", "--seed", "1", "--seeds", "2"], "one of --seed and --seeds"),
    (["broker"], "--config"),
]


@pytest.mark.parametrize(("words", "sentence"), WRONG, ids=[" ".join(each) for each, _ in WRONG])
def test_wrong_usage_is_said_before_anything_is_tried(words: list[str], sentence: str) -> None:
    code, output, errors = run(*words)
    assert code == 2
    assert output == ""
    assert sentence in errors


def numbers_that_are_not_whole() -> Iterator[tuple[list[str], str]]:
    """Yield every command with each of its options for such a number."""
    for name in COMMANDS:
        command = get_command(importlib.import_module(f"kafkaesque.cli.commands.{name}").app)
        waiting: list[tuple[list[str], Any]] = [([name], command)]
        while waiting:
            words, command = waiting.pop()
            commands = getattr(command, "commands", {})
            waiting += [([*words, each], found) for each, found in commands.items()]
            for option in command.params:
                if "float" in option.type.name:
                    yield words, option.opts[0]


@pytest.mark.parametrize("value", ["nan", "inf", "1e400"])
def test_no_option_of_any_command_takes_a_number_without_an_end(value: str) -> None:
    found = list(numbers_that_are_not_whole())
    assert (["cluster", "wait"], "--timeout") in found
    assert (["txn", "list"], "--open-for") in found
    for words, option in found:
        code, output, errors = run(*words, option, value)
        assert (code, output) == (2, ""), words
        said = "nan is not a number" if value == "nan" else "inf is not in the range"
        assert said in errors, (words, option)


def test_the_headers_of_columns_have_one_style() -> None:
    """A header is one word, so that `awk` and `cut` find columns also on a terminal."""
    sources = (Path(cli.__file__).parent).rglob("*.py")
    found = [each for path in sources for each in HEADERS.findall(path.read_text())]
    assert "RECORDS-BEHIND" in found
    assert [each for each in found if " " in each] == []


@pytest.mark.parametrize("words", [["delete", "t"], ["elect", "t", "--unclean"]])
def test_an_answer_out_of_a_pipe_is_none(words: list[str]) -> None:
    for text in ("n\n", "y\n", ""):
        code, _, errors = run("topic", *words, text=text)
        assert code == 2
        assert "nothing was done" in errors


def test_who_types_is_asked_and_who_says_no_has_nothing_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arguments, "is_typed", lambda: True)
    monkeypatch.setattr(replica_moves, "read_layout", lambda _: LED)
    monkeypatch.setattr(replica_moves, "elect_leaders", lambda *_, **__: pytest.fail("elected"))
    code, output, errors = run("topic", "elect", "t", "--unclean", text="n\n")
    assert code == 1
    assert (
        "Partitions of t without a leader will lose what only their missing replicas have"
        in output + errors
    )


def test_a_file_that_cannot_be_read_is_named() -> None:
    code, _, errors = run("publish", "t", "--file", "/nonexistent/file")
    assert code == 1
    assert "cannot read /nonexistent/file: no such file or directory" in errors


def test_a_dump_is_of_one_broker(tmp_path: Path) -> None:
    for number in (1, 2):
        broker = tmp_path / f"broker-{number}"
        broker.mkdir()
        (broker / "meta.json").write_text("{}")
    code, _, errors = run("log", "dump", str(tmp_path))
    assert code == 2
    assert f"{tmp_path} holds the data of 2 brokers" in errors
    assert f"try:   kafkaesque log dump {tmp_path}/broker-1\n" in errors
    (tmp_path / "broker-2" / "meta.json").unlink()
    assert run("log", "dump", str(tmp_path)) == (0, "", "")


@pytest.mark.parametrize("words", ["--help", "publish --help", "sim run --seed 1 --seconds 0.2"])
def test_an_output_that_is_full_is_said_in_a_sentence(words: str) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kafkaesque.cli.app", *words.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=90,
            check=False,
        )
    assert done.stderr == "error: the output cannot be written: no space left on device\n"
    assert done.returncode == 1


@pytest.mark.parametrize("module", ["typer", "kafkaesque.cli.commands.topic", "confluent_kafka"])
def test_ctrl_c_while_modules_are_read_leaves_no_traceback(module: str) -> None:
    program = (
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == {module!r}: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.argv[1:] = ['topic', 'list']\n"
        "from kafkaesque.cli.app import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=90, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_outage_is_told_once_in_a_while() -> None:
    told: list[str] = []
    tell = outage_teller(told.append)
    tell(KafkaError(KafkaError._TRANSPORT))
    assert told == []
    for _ in range(3):
        tell(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert told == ["no connection to any broker at the moment; still trying (Ctrl-C ends it)"]


def test_a_seed_is_run_and_told_about() -> None:
    code, output, _ = run("sim", "run", "--seed", "1", "--seconds", "1", "--json")
    assert code == 0
    report = json.loads(output)
    assert report["ok"] is True
    assert report["seed"] == 1
    assert len(report["digest"]) == 64
