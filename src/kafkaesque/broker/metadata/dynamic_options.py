"""Broker options in force: those of the start, and over them what was set while brokers run."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkaesque.broker.metadata.cluster_state import ALL_BROKERS
from kafkaesque.broker.options.tables import BROKER_OPTIONS
from kafkaesque.model.ids import NodeId
from kafkaesque.model.options import OptionValue

Values = dict[str, OptionValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionsInForce:
    """The options that one broker goes by."""

    values: Values
    #: What was set for all brokers and for this one, as far as it holds.
    dynamic: Mapping[NodeId, Values]
    #: What was set and does not hold, each in a sentence.
    refused: tuple[str, ...] = ()


def resolve_options(
    static: Values, configs: Mapping[NodeId, Mapping[str, str]], node: NodeId
) -> OptionsInForce:
    """Return what holds on a broker that was started with these options, which fit one another.

    What is stored may be from a release that allowed more, or not fit what the broker was started
    with: such a value does not hold, and the next one does, as if it had never been set.
    """
    values = dict(static)
    dynamic: dict[NodeId, Values] = {}
    refused: list[str] = []
    for layer in (ALL_BROKERS, node):
        parsed, wrong = BROKER_OPTIONS.parse_stored(configs.get(layer, {}))
        dynamic[layer] = parsed
        values.update(parsed)
        refused.extend(wrong.values())
    # What is taken back for one order may break one that was looked at before.
    for order in [*BROKER_OPTIONS.orders] * len(BROKER_OPTIONS.orders):
        sentence = order.find_contradiction(values.__getitem__)
        if sentence is not None:
            refused.append(sentence)
            for name in (order.low, order.high):
                values[name] = static[name]
                for own in dynamic.values():
                    own.pop(name, None)
    return OptionsInForce(values=values, dynamic=dynamic, refused=tuple(refused))
