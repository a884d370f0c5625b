"""`kafkaesque config`: which options there are, which are in force, and how they are changed."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated

import typer

from kafkaesque.broker.metadata.client_quotas import CLIENT_QUOTAS, IP_QUOTAS
from kafkaesque.broker.options.groups import GROUP_OPTIONS
from kafkaesque.broker.options.tables import BROKER_OPTIONS, TOPIC_OPTIONS
from kafkaesque.cli import config_quotas
from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    new_app,
    parse_pairs,
    wrong_usage,
)
from kafkaesque.cli.config_target import Target
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.screen import Cell, Screen, Table
from kafkaesque.model.errors import ConfigError
from kafkaesque.model.options import Option, OptionTable, write_value

app = new_app(help="Options and quotas: list, describe, set and unset.")
app.add_typer(config_quotas.app, name="quota")


class Kind(StrEnum):
    """What options belong to."""

    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"
    QUOTA = "quota"


_TABLES: Mapping[Kind, tuple[OptionTable, ...]] = {
    Kind.TOPIC: (TOPIC_OPTIONS,),
    Kind.BROKER: (BROKER_OPTIONS,),
    Kind.GROUP: (GROUP_OPTIONS,),
    Kind.QUOTA: (CLIENT_QUOTAS, IP_QUOTAS),
}

TopicOption = Annotated[
    str | None, typer.Option("--topic", metavar="NAME", help="Options of this topic.")
]
BrokerOption = Annotated[
    int | None, typer.Option("--broker", metavar="ID", min=0, help="Options of this broker.")
]
GroupOption = Annotated[
    str | None, typer.Option("--group", metavar="NAME", help="Options of this group.")
]
AllBrokersOption = Annotated[
    bool, typer.Option("--all-brokers", help="Options set for all brokers at once.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionRow:
    """One option that there is."""

    kind: str
    option: str
    type: str
    default: str | None
    allowed: str
    dynamic: bool
    meaning: str


@app.command("list")
def list_options(
    kind: Annotated[Kind | None, typer.Argument(metavar="[topic|broker|group|quota]")] = None,
    json: JsonOption = False,
) -> None:
    """List all options: type, default, and whether they can be changed at run time.

    This asks no broker. --json adds each option's meaning and allowed values, which are also in
    docs/options.md.

    \b
    Example:
      kafkaesque config list topic
      kafkaesque config list --json
    """
    kinds = list(Kind) if kind is None else [kind]
    found = [_row(each, option) for each in kinds for table in _TABLES[each] for option in table]
    rows: list[tuple[Cell, ...]] = [
        (row.kind, row.option, row.type, row.default, "yes" if row.dynamic else "no")
        for row in found
    ]
    columns = ("FOR", "OPTION", "TYPE", "DEFAULT", "DYNAMIC")
    Screen(json=json).show(Table(columns=columns, rows=rows), [asdict(row) for row in found])


def _row(kind: Kind, option: Option) -> OptionRow:
    return OptionRow(
        kind=kind,
        option=option.name,
        type=option.type.name.lower(),
        # Who has no quota may do anything.
        default=None if kind is Kind.QUOTA or option.is_unset else write_value(option.default),
        allowed=option.allowed,
        dynamic=option.dynamic,
        meaning=option.meaning,
    )


@app.command()
def describe(
    options: Annotated[
        list[str] | None, typer.Argument(metavar="[OPTION...]", show_default=False)
    ] = None,
    topic: TopicOption = None,
    broker: BrokerOption = None,
    group: GroupOption = None,
    all_brokers: AllBrokersOption = False,
    show_all: Annotated[
        bool, typer.Option("--all", help="Also options that have their default.")
    ] = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Show options that were set, or that you name: their values, and where these come from.

    \b
    Example:
      kafkaesque config describe --topic orders
      kafkaesque config describe --broker 1 num.partitions
    """
    target = _target(topic, broker, group, all_brokers=all_brokers)
    from kafkaesque.cli.config_requests import read_values

    found = read_values(bootstrap, target)
    if options:
        known = {row.option: row for row in found}
        for name in options:
            if name not in known and not all_brokers:
                raise _unknown(_table_of(target), name)
        found = [known[name] for name in options if name in known]
    elif not show_all:
        found = [row for row in found if row.source != "default"]
    rows: list[tuple[Cell, ...]] = [
        (row.option, row.value, row.source, "yes" if row.dynamic else "no") for row in found
    ]
    Screen(json=json).show(
        Table(columns=("OPTION", "VALUE", "FROM", "DYNAMIC"), rows=rows),
        [asdict(row) for row in found],
    )


@app.command("set")
def set_options(
    options: Annotated[list[str], typer.Argument(metavar="OPTION=VALUE...", show_default=False)],
    topic: TopicOption = None,
    broker: BrokerOption = None,
    group: GroupOption = None,
    all_brokers: AllBrokersOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Set options of a topic, a broker, all brokers or a group; others stay as they are.

    \b
    Example:
      kafkaesque config set retention.ms=3600000 --topic orders
      kafkaesque config set num.partitions=6 --all-brokers
    """
    values = parse_pairs(options, "option", "retention.ms=86400000")
    target = _target(topic, broker, group, all_brokers=all_brokers)
    _change(bootstrap, target, "set", {**values}, values, json=json)


@app.command()
def unset(
    options: Annotated[list[str], typer.Argument(metavar="OPTION...", show_default=False)],
    topic: TopicOption = None,
    broker: BrokerOption = None,
    group: GroupOption = None,
    all_brokers: AllBrokersOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Remove values that were set: the more general value, or the default, applies again.

    \b
    Example:
      kafkaesque config unset retention.ms --topic orders
    """
    target = _target(topic, broker, group, all_brokers=all_brokers)
    _change(bootstrap, target, "unset", dict.fromkeys(options), options, json=json)


def _change(
    bootstrap: str,
    target: Target,
    verb: str,
    values: Mapping[str, str | None],
    named: Mapping[str, str] | Sequence[str],
    *,
    json: bool,
) -> None:
    """Change options, and say so; `named` is what the document says of them."""
    from kafkaesque.cli.config_requests import change_values

    change_values(bootstrap, target, values)
    document = {**asdict(target), verb: named}
    Screen(json=json).done(f"{verb} {', '.join(named)} of {target}", document)


def _target(
    topic: str | None, broker: int | None, group: str | None, *, all_brokers: bool
) -> Target:
    if sum(each is not None for each in (topic, broker, group)) + all_brokers != 1:
        raise wrong_usage(
            "say whose options you mean",
            "--topic NAME, --broker ID, --group NAME or --all-brokers",
        )
    return Target(topic=topic, broker=broker, group=group)


def _table_of(target: Target) -> OptionTable:
    if target.topic is not None:
        return TOPIC_OPTIONS
    return BROKER_OPTIONS if target.group is None else GROUP_OPTIONS


def _unknown(table: OptionTable, name: str) -> CommandFailed:
    hint = f"kafkaesque config list {table.kind}"
    try:
        table.get(name)
    except ConfigError as error:
        return wrong_usage(str(error), hint)
    return wrong_usage(f"the broker knows no {table.kind} option {name!r}", hint)
