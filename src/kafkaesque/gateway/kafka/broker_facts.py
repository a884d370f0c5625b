"""What a broker's file says outside of `[options]`, under the names that Kafka has for it.

DescribeConfigs shows it, and nothing changes it while the broker runs.
"""

from typing import NamedTuple

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import KAFKA, AccessMode, Listener
from kafkaesque.env.network import Address
from kafkaesque.model.options import Option, OptionType

INT = OptionType.INT
LIST = OptionType.LIST
STRING = OptionType.STRING

_PLAINTEXT = "PLAINTEXT"


class Fact(NamedTuple):
    """An option that only the file sets, with its value; None where it is not set."""

    option: Option
    value: str | None


def broker_facts(doors: Doors) -> list[Fact]:
    """Return what this broker is and where it listens."""
    config = doors.configuration.file
    listeners = [each for each in config.listeners if each.protocol == KAFKA]
    is_voter = doors.cluster.node in doors.cluster.controllers()
    node, directory = str(doors.cluster.node), config.data_dir
    return [
        _fact("node.id", INT, node, "The broker's id."),
        _fact("broker.id", INT, node, "The same."),
        _fact("broker.rack", STRING, config.rack, "Where the broker's machine stands."),
        _fact(
            "process.roles",
            LIST,
            "broker,controller" if is_voter else "broker",
            "Every broker serves clients; those that vote on metadata are controllers, too.",
        ),
        _fact(
            "listeners",
            LIST,
            ",".join(_endpoint(each, each.address) for each in listeners),
            "Where the broker listens for Kafka's clients.",
        ),
        _fact(
            "advertised.listeners",
            LIST,
            ",".join(_endpoint(each, each.advertised) for each in listeners),
            "What clients are told to connect to.",
        ),
        _fact(
            "listener.security.protocol.map",
            STRING,
            ",".join(f"{_name(each)}:{_security(each)}" for each in listeners),
            "How clients speak there.",
        ),
        _fact("log.dirs", LIST, directory, "The data directory."),
        _fact("log.dir", STRING, directory, "The same."),
        _fact("metadata.log.dir", STRING, directory, "The same: metadata are kept there, too."),
        # None of Kafka's names.
        _fact(
            "admin.listener",
            STRING,
            str(config.admin_address or ""),
            "Where the broker's metrics and health are, as host:port; empty where they are off.",
        ),
    ]


def _fact(name: str, type_: OptionType, value: str | None, doc: str) -> Fact:
    return Fact(Option(name=name, type=type_, default="", dynamic=False, doc=doc), value)


def _endpoint(listener: Listener, address: Address) -> str:
    return f"{_name(listener)}://{address}"


def _name(listener: Listener) -> str:
    """Return what Kafka would call it: one without a name of its own is called by its protocol."""
    return _security(listener) if listener.name == KAFKA else listener.name.upper()


def _security(listener: Listener) -> str:
    kind = "SSL" if listener.tls else _PLAINTEXT
    return kind if listener.access is AccessMode.OPEN else f"SASL_{kind}"
