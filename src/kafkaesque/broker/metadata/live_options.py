"""The broker options in force on one broker, which change while it runs."""

from collections.abc import Mapping

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.dynamic_options import Values, resolve_options
from kafkaesque.model.ids import NodeId
from kafkaesque.model.options import OptionValue


class LiveOptions:
    """Options by name; `values` is a new mapping after each change."""

    __slots__ = ("_node", "_refused", "_static", "dynamic", "values")

    def __init__(self, node: NodeId, given: Mapping[str, OptionValue]) -> None:
        """`given` are all options as they were when the broker started; they fit one another."""
        self._node = node
        self._static: Values = dict(given)
        self._refused: tuple[str, ...] = ()
        self.values: Values = {}
        #: What of them was set while brokers run, for all brokers and for this one.
        self.dynamic: Mapping[NodeId, Values] = {}

    def get(self, name: str) -> OptionValue:
        """Return the option in force: dynamic for this broker, for all, static, default."""
        return self.values[name]

    def refresh(self, state: ClusterState) -> tuple[str, ...]:
        """Take what the metadata say; return what was set and does not hold, if that is news."""
        found = resolve_options(self._static, state.broker_configs, self._node)
        self.values, self.dynamic = found.values, found.dynamic
        if found.refused == self._refused:
            return ()
        self._refused = found.refused
        return found.refused
