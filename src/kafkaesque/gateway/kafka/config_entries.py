"""Options in force, each with where its value is from, as DescribeConfigs shows them."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.cluster_state import ALL_BROKERS
from kafkaesque.broker.group_options import GROUP_OPTIONS
from kafkaesque.broker.options import BROKER_OPTIONS, TOPIC_OPTIONS
from kafkaesque.model.options import Option, OptionType, OptionValue, write_value

#: Not one of `[options]`: what `admin.port` in the broker's file comes to.
ADMIN_LISTENER: Final = Option(
    name="admin.listener",
    type=OptionType.STRING,
    default="",
    dynamic=False,
    doc="Where the broker's metrics and health are, as host:port; empty where they are off.",
)


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
    """An option in force; the first synonym is what gives it its value."""

    option: Option
    value: str
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


def _entry(option: Option, synonyms: list[Synonym]) -> ConfigEntry:
    first = synonyms[0]
    return ConfigEntry(option, first.value, first.source, synonyms)


def topic_entries(broker: Broker, configs: Mapping[str, str]) -> list[ConfigEntry]:
    """Return all options of a topic that has these of its own."""
    own, _ = TOPIC_OPTIONS.parse_stored(configs)
    return [
        _entry(option, _layered_synonyms(broker, option, own, ConfigSource.TOPIC))
        for option in TOPIC_OPTIONS
    ]


def _layered_synonyms(
    broker: Broker, option: Option, own: Mapping[str, OptionValue], source: ConfigSource
) -> list[Synonym]:
    synonyms = []
    if option.name in own:
        value = write_value(own[option.name])
        synonyms.append(Synonym(option.name, value, source))
    if option.broker_name is not None:
        synonyms.extend(_broker_synonyms(broker, BROKER_OPTIONS.get(option.broker_name)))
    else:
        value = write_value(option.default)
        synonyms.append(Synonym(option.name, value, ConfigSource.DEFAULT))
    return synonyms


def group_entries(broker: Broker, configs: Mapping[str, str]) -> list[ConfigEntry]:
    """Return all options of a group that has these of its own."""
    own, _ = GROUP_OPTIONS.parse_stored(configs)
    return [
        _entry(option, _layered_synonyms(broker, option, own, ConfigSource.GROUP))
        for option in GROUP_OPTIONS
    ]


def broker_entries(broker: Broker) -> list[ConfigEntry]:
    """Return all options of this broker, and where its admin port is."""
    admin = broker.config.admin_address
    listener = Synonym(ADMIN_LISTENER.name, str(admin or ""), ConfigSource.STATIC_BROKER)
    options = [_entry(option, _broker_synonyms(broker, option)) for option in BROKER_OPTIONS]
    return [*options, _entry(ADMIN_LISTENER, [listener])]


def _broker_synonyms(broker: Broker, option: Option) -> list[Synonym]:
    name = option.name
    synonyms = []
    for node, source in (
        (broker.node, ConfigSource.DYNAMIC_BROKER),
        (ALL_BROKERS, ConfigSource.DYNAMIC_DEFAULT_BROKER),
    ):
        own = broker.dynamic_options.get(node, {})
        if name in own:
            synonyms.append(Synonym(name, write_value(own[name]), source))
    if name in broker.config.options:
        value = write_value(broker.config.options[name])
        synonyms.append(Synonym(name, value, ConfigSource.STATIC_BROKER))
    synonyms.append(Synonym(name, write_value(option.default), ConfigSource.DEFAULT))
    return synonyms


def broker_default_entries(broker: Broker) -> list[ConfigEntry]:
    """Return the options that are set for all brokers at once."""
    own = broker.dynamic_options.get(ALL_BROKERS, {})
    entries = []
    for option in BROKER_OPTIONS:
        if option.name in own:
            value = write_value(own[option.name])
            source = ConfigSource.DYNAMIC_DEFAULT_BROKER
            entries.append(_entry(option, [Synonym(option.name, value, source)]))
    return entries
