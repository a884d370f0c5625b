"""Writes `docs/options.md` from the tables of options: what the brokers honour, and what not."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "options.md"
sys.path.insert(0, str(ROOT / "src"))

from kafkaesque.broker.absent_options import absent_options  # noqa: E402
from kafkaesque.broker.client_quotas import CLIENT_QUOTAS, IP_QUOTAS  # noqa: E402
from kafkaesque.broker.options import BROKER_OPTIONS, TOPIC_OPTIONS  # noqa: E402
from kafkaesque.model.options import Option, OptionType, write_value  # noqa: E402
from kafkaesque.server.config import SERVER_OPTIONS  # noqa: E402

HEAD = """\
<!-- Written by codegen/options_page.py from the tables in the code: never edit. -->

# Options

Every option that is taken stands here; any other name is refused. Names, types, defaults and ranges
are Apache Kafka's where Kafka has the option. Those that have nothing to do here are taken so that
files and tools written for Kafka work; their meaning says so. `kafkaesque config` shows and changes
options (see [The command line](cli.md#options-and-quotas)), and so does every Kafka client.

An option that is dynamic holds as soon as it is changed. One that is not is read when a broker
starts, from `[options]` in its file; a change at work is refused.
"""

TOPICS = """
## Topic options

Given when a topic is created, or changed later. Where a broker option stands behind the name, it is
the default of topics that do not say; further names behind it count where that one is not set.
"""

BROKERS = """
## Broker options

In `[options]` of a broker's file, or for one broker or all of them while they run. What is set for
one broker goes before what is set for all, and that before the file.
"""

FILE = """
## The keys of `[broker]`

In a broker's file, which `kafkaesque broker --config FILE` takes; `--check` says what is wrong with
it. A variable of the environment goes over the file (`kafka.port` is `KAFKAESQUE_KAFKA_PORT`), and
`--option NAME=VALUE` over both. All of them are read when the broker starts. Beside this section a
file may have `[options]`, with the broker options above, and `[controllers]`: the voters that a new
cluster begins with, each broker id with its peer address, such as `1 = "10.0.0.1:9190"`, or `""`
where gossip finds it ([Membership](membership.md)). Without `[controllers]` a broker founds a
cluster of its own, unless its seeds know one.
"""

QUOTAS = """
## Client quotas

For a user, a client id, both together, or the default of either; the most particular one holds
(KIP-55). A user that has not said who it is, is `ANONYMOUS`. Quotas hold for each broker by itself,
on its Kafka port. Ten seconds' worth may come at once; who goes beyond is answered, told for how
long it is throttled, and not read from for that long: 11 seconds at most for bytes and partitions,
one for the loop's time, and what is owed then is owed still.
"""

ADDRESSES = """
## Quotas of addresses

For an address, or the default of all. A connection too many is closed after a second at most.
"""

ABSENT = """
## Options of Apache Kafka that are not here

They are refused with the reason that stands beside them.
"""


def _text(words: str) -> str:
    return words.replace("|", "\\|")


def _default(option: Option) -> str:
    value = write_value(option.default)
    if option.is_unset or (option.type is OptionType.STRING and not value):
        return ""
    return f"`{value}`"


def _rows(options: Iterable[Option], *, are_quotas: bool = False) -> list[str]:
    middle = "" if are_quotas else " default | dynamic |"
    lines = ["", f"| name | type |{middle} allowed | meaning |"]
    lines.append("|---" * (4 if are_quotas else 6) + "|")
    for option in options:
        name = f"`{option.name}`"
        if option.broker_name is not None:
            others = (option.broker_name, *option.broker_synonyms)
            name += f" ({', '.join(f'`{each}`' for each in others)})"
        cells = [name, option.type.name.lower()]
        if not are_quotas:
            cells += [_default(option), "yes" if option.dynamic else "no"]
        cells += [option.allowed, option.doc]
        lines.append(f"| {' | '.join(map(_text, cells))} |")
    return lines


def _file_rows() -> list[str]:
    lines = ["", "| name | type | default | allowed | meaning |", "|---|---|---|---|---|"]
    for option in SERVER_OPTIONS:
        cells = [f"`{option.name}`", option.type.name.lower(), _default(option)]
        lines.append(f"| {' | '.join(map(_text, [*cells, option.allowed, option.doc]))} |")
    return lines


def page_source() -> str:
    """Returns the whole page."""
    lines = [HEAD + TOPICS.rstrip("\n"), *_rows(TOPIC_OPTIONS)]
    lines += [BROKERS.rstrip("\n"), *_rows(BROKER_OPTIONS)]
    lines += [FILE.rstrip("\n"), *_file_rows()]
    lines += [QUOTAS.rstrip("\n"), *_rows(CLIENT_QUOTAS, are_quotas=True)]
    lines += [ADDRESSES.rstrip("\n"), *_rows(IP_QUOTAS, are_quotas=True)]
    lines += [ABSENT.rstrip("\n"), "", "| name | of | why, or what there is |", "|---|---|---|"]
    lines += [f"| `{name}` | {kind} | {_text(why)} |" for kind, name, why in absent_options()]
    return "\n".join(lines) + "\n"
