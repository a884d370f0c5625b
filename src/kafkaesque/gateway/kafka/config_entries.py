"""Options in force, each with where its value is from, as DescribeConfigs shows them."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.cluster_state import ALL_BROKERS
from kafkaesque.broker.options.groups import GROUP_OPTIONS
from kafkaesque.broker.options.log import UNITS
from kafkaesque.broker.options.tables import BROKER_OPTIONS, TOPIC_OPTIONS
from kafkaesque.broker.options.topic_config import resolve_option
from kafkaesque.gateway.kafka.broker_facts import Fact, broker_facts
from kafkaesque.model.options import Option, OptionValue, write_value


class ConfigSource(IntEnum):
    """Where a value is from; the numbers are Kafka's."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class Synonym(NamedTuple):
    """An option that would give the value, were it not for those before it."""

    name: str
    value: str
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """An option in force; the first synonym is what gives it its value, maybe in other units."""

    option: Option
    #: None where nobody has set it, and another option counts.
    value: str | None
    source: ConfigSource
    synonyms: list[Synonym]

    @property
    def name(self) -> str:
        """The option's name."""
        return self.option.name

    @property
    def read_only(self) -> bool:
        """Whether it can only be changed by restarting the broker."""
        return not self.option.dynamic


def _entry(option: Option, synonyms: list[Synonym], value: str | None) -> ConfigEntry:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    return ConfigEntry(option, value, source, synonyms)


def topic_entries(doors: Doors, configs: Mapping[str, str]) -> list[ConfigEntry]:
    """Return all options of a topic that has these of its own."""
    own, _ = TOPIC_OPTIONS.parse_stored(configs)
    return [_topic_entry(doors, option, own) for option in TOPIC_OPTIONS]


def _topic_entry(doors: Doors, option: Option, own: Mapping[str, OptionValue]) -> ConfigEntry:
    synonyms = []
    if option.name in own:
        value = write_value(own[option.name])
        synonyms.append(Synonym(option.name, value, ConfigSource.TOPIC))
    else:
        value = write_value(resolve_option(option.name, {}, doors.configuration.live.values)[0])
    if option.broker_name is not None:
        names = (option.broker_name, *option.broker_synonyms)
        synonyms.extend(_broker_synonyms(doors, names))
    else:
        default = write_value(option.default)
        synonyms.append(Synonym(option.name, default, ConfigSource.DEFAULT))
    return _entry(option, synonyms, value)


def group_entries(doors: Doors, configs: Mapping[str, str]) -> list[ConfigEntry]:
    """Return all options of a group that has these of its own."""
    own, _ = GROUP_OPTIONS.parse_stored(configs)
    return [_group_entry(doors, option, own) for option in GROUP_OPTIONS]


def _group_entry(doors: Doors, option: Option, own: Mapping[str, OptionValue]) -> ConfigEntry:
    synonyms = []
    if option.name in own:
        synonyms.append(Synonym(option.name, write_value(own[option.name]), ConfigSource.GROUP))
    if option.broker_name is not None:
        synonyms.extend(_broker_synonyms(doors, (option.broker_name,)))
    else:
        default = write_value(option.default)
        synonyms.append(Synonym(option.name, default, ConfigSource.DEFAULT))
    return _entry(option, synonyms, synonyms[0].value)


def broker_entries(doors: Doors) -> list[ConfigEntry]:
    """Return all options of this broker, and what else its file says."""
    options = [_broker_entry(doors, option) for option in BROKER_OPTIONS]
    return [*options, *(_fact_entry(fact) for fact in broker_facts(doors))]


def _fact_entry(fact: Fact) -> ConfigEntry:
    option, value = fact
    if value is None:
        return _entry(option, [], None)
    return _entry(option, [Synonym(option.name, value, ConfigSource.STATIC_BROKER)], value)


def _broker_entry(doors: Doors, option: Option) -> ConfigEntry:
    names = (option.name, *(name for name, _ in UNITS.get(option.name, ())))
    synonyms = _broker_synonyms(doors, names)
    # As in Kafka: what others give is shown for those.
    while synonyms and synonyms[0].name != option.name:
        del synonyms[0]
    return _entry(option, synonyms, synonyms[0].value if synonyms else None)


def _broker_synonyms(doors: Doors, names: Sequence[str]) -> list[Synonym]:
    """Return what sets the first of these options, or in its place one of the others."""
    layers = [
        (doors.configuration.live.dynamic.get(doors.cluster.node, {}), ConfigSource.DYNAMIC_BROKER),
        (
            doors.configuration.live.dynamic.get(ALL_BROKERS, {}),
            ConfigSource.DYNAMIC_DEFAULT_BROKER,
        ),
        (doors.configuration.file.options, ConfigSource.STATIC_BROKER),
    ]
    synonyms = [
        Synonym(name, write_value(values[name]), source)
        for values, source in layers
        for name in names
        if name in values
    ]
    for name in names:
        option = BROKER_OPTIONS.get(name)
        if not option.is_unset:
            synonyms.append(Synonym(name, write_value(option.default), ConfigSource.DEFAULT))
    return synonyms


def broker_default_entries(doors: Doors) -> list[ConfigEntry]:
    """Return the options that are set for all brokers at once."""
    own = doors.configuration.live.dynamic.get(ALL_BROKERS, {})
    entries = []
    for option in BROKER_OPTIONS:
        if option.name in own:
            value = write_value(own[option.name])
            source = ConfigSource.DYNAMIC_DEFAULT_BROKER
            entries.append(_entry(option, [Synonym(option.name, value, source)], value))
    return entries
