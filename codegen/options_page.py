"""Writes `docs/options.md` from the tables of options: what the brokers honour, and what not."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "options.md"
sys.path.insert(0, str(ROOT / "src"))

from kafkaesque.broker.metadata.client_quotas import CLIENT_QUOTAS, IP_QUOTAS  # noqa: E402
from kafkaesque.broker.options.absent import absent_options  # noqa: E402
from kafkaesque.broker.options.groups import GROUP_OPTIONS  # noqa: E402
from kafkaesque.broker.options.queues import QUEUE_OPTIONS  # noqa: E402
from kafkaesque.broker.options.tables import BROKER_OPTIONS, TOPIC_OPTIONS  # noqa: E402
from kafkaesque.model.options import Option, OptionType, write_value  # noqa: E402
from kafkaesque.server.listeners import LISTENER_OPTIONS  # noqa: E402
from kafkaesque.server.options import SERVER_OPTIONS  # noqa: E402
from kafkaesque.server.tls_settings import TLS_OPTIONS  # noqa: E402

HEAD = """\
<!-- Written by codegen/options_page.py from the tables in the code: never edit. -->

# Options

Show and change options with `kafkaesque config` ([The command line](cli.md#options-and-quotas)), or
with any Kafka client:

```sh
kafkaesque config set retention.ms=86400000 --topic flights
kafkaesque config describe --topic flights
```

This page lists every option that is accepted; any other name is refused. Names, types, defaults and
ranges are Apache Kafka's where Kafka has the option. Options that have nothing to do here are
accepted so that files and tools written for Kafka work; their meaning says so.

A dynamic option takes effect as soon as it is changed. Other options are read when a broker starts,
from `[options]` in its file; changing them in a running broker is refused.
"""

TOPICS = """
## Topic options

Set them when you create a topic, or later. If the name of a broker option follows in brackets, that
option is the default for topics that do not set their own value. Further names in the brackets
count where the first one is not set.
"""

BROKERS = """
## Broker options

Set them in `[options]` of a broker's file, or, while brokers run, for one broker or for all. A
value for one broker overrides a value for all brokers, which overrides the file.
"""

GROUPS = """
## Group options

For one group, whether it exists or not: `kafkaesque config set --group`, `kafka-configs
--entity-type groups`, or any client that knows the resource type GROUP (32) of the config APIs. An
option goes before the broker option in brackets, for members from their next heartbeat on. Classic
groups have none of these: their members bring their own session timeouts. What belongs to streams
groups is checked, kept and shown, and nothing goes by it: there are no such groups. A cluster
that was made by an earlier release needs `kafkaesque cluster upgrade` first.
"""

QUEUES = """
## Queues

Names are RabbitMQ's without their `x-`, or SQS's in the same spelling. Set them with
`kafkaesque queue create` and `alter` ([Queues](queues.md)), or over [Amazon SQS](sqs.md) by
attributes of a queue. They take effect as soon as they are changed, whatever waits in the
queue.
"""

FILE = """
## The keys of `[broker]`

These are keys of a broker's file:

```sh
kafkaesque broker --config FILE --check    # say what is wrong with the file, and start nothing
kafkaesque broker --config FILE
```

An environment variable overrides the file (`KAFKAESQUE_KAFKA_PORT` for `kafka.port`), and
`--option NAME=VALUE` overrides both. All keys are read when the broker starts.

A file may have two further sections:

- `[options]` has broker options, as above.
- `[controllers]` has the first voters of a new cluster: each broker id with its peer address, such
  as `1 = "10.0.0.1:9190"`, or `""` if gossip finds the address ([Membership](membership.md)).
  Without this section a broker founds a cluster of its own, unless its seeds know a cluster.

Listeners have tables of their own: [below](#listeners). So has [TLS](#tls).
"""

TLS = """
## TLS

The section `[tls]` has what all listeners share, and what brokers show one another
([Security](security.md)):

```toml
[tls]
certificate = "/etc/kafkaesque/broker-1.pem"
key = "/etc/kafkaesque/broker-1.key"
ca = "/etc/kafkaesque/ca.pem"
listeners = true
peers = "on"
```

Environment variables have the section in their name (`KAFKAESQUE_TLS_KEY` for `key`), and so has
`--option tls.key=FILE`. The files are read again when they change, and on SIGHUP.
"""

LISTENERS = """
## Listeners

A broker listens for each protocol at one port by default; `host` and the port keys of `[broker]`
set it. A table `[[listener]]` adds a listener. Here clients inside of a network use port 9092, and
clients outside of it use `kafka.example.org:9094`:

```toml
[broker]
id = 1
host = "10.0.0.7"
kafka.port = 9092
allow.open.listeners = true       # see security.md for brokers with a log-in and TLS

[[listener]]
name = "outside"
port = 9094
advertised.host = "kafka.example.org"
```

The first `[[listener]]` of a protocol replaces the protocol's default listener, unless the port of
the default is set in `[broker]`, as here.

A client is told the addresses of listeners that have the name of the listener that it connected to.
So give all brokers the same listeners. A broker without that listener does not exist for the
client, and its partitions answer LISTENER_NOT_FOUND, as in Apache Kafka. In a cluster that an
earlier release made, brokers learn of each other's listeners after `kafkaesque cluster upgrade`.

The keys of a table:
"""

QUOTAS = """
## Client quotas

A quota is for a user, a client id, both together, or the default of either; the most specific one
applies (KIP-55). A user that has not authenticated is `ANONYMOUS`. Each broker applies quotas by
itself, on its Kafka port.

A client may use ten seconds' worth at once. If it exceeds that, its request is answered, the answer
says for how long the client is throttled, and the broker reads nothing from it for that time. That
is at most 11 seconds for bytes and partitions, and one second for the loop's time; the client still
owes the rest after that.
"""

ADDRESSES = """
## Quotas of addresses

For one address, or the default for all. A connection that exceeds the quota is closed after at most
a second.
"""

ABSENT = """
## Options of Apache Kafka that are not here

They are refused with the reason in the last column.
"""


def _text(words: str) -> str:
    return words.replace("|", "\\|")


def _default(option: Option) -> str:
    value = write_value(option.default)
    is_text = option.type in (OptionType.STRING, OptionType.LIST)
    if option.is_unset or (is_text and not value):
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


def _file_rows(options: Iterable[Option]) -> list[str]:
    lines = ["", "| name | type | default | allowed | meaning |", "|---|---|---|---|---|"]
    for option in options:
        cells = [f"`{option.name}`", option.type.name.lower(), _default(option)]
        lines.append(f"| {' | '.join(map(_text, [*cells, option.allowed, option.doc]))} |")
    return lines


def page_source() -> str:
    """Returns the whole page."""
    lines = [HEAD + TOPICS.rstrip("\n"), *_rows(TOPIC_OPTIONS)]
    lines += [BROKERS.rstrip("\n"), *_rows(BROKER_OPTIONS)]
    lines += [GROUPS.rstrip("\n"), *_rows(GROUP_OPTIONS)]
    lines += [QUEUES.rstrip("\n"), *_file_rows(QUEUE_OPTIONS)]
    lines += [FILE.rstrip("\n"), *_file_rows(SERVER_OPTIONS)]
    lines += [TLS.rstrip("\n"), *_file_rows(TLS_OPTIONS)]
    lines += [LISTENERS.rstrip("\n"), *_file_rows(LISTENER_OPTIONS)]
    lines += [QUOTAS.rstrip("\n"), *_rows(CLIENT_QUOTAS, are_quotas=True)]
    lines += [ADDRESSES.rstrip("\n"), *_rows(IP_QUOTAS, are_quotas=True)]
    lines += [ABSENT.rstrip("\n"), "", "| name | of | why, or what there is |", "|---|---|---|"]
    lines += [f"| `{name}` | {kind} | {_text(why)} |" for kind, name, why in absent_options()]
    return "\n".join(lines) + "\n"
