"""An administrator who limits the rates of copies, lifts the limits, and sets other ones."""

from collections.abc import Sequence
from typing import Any, Final

from kafkaesque.broker.options.replication import (
    FOLLOWER_RATE,
    LEADER_RATE,
    TOPIC_REPLICATION_OPTIONS,
)
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkaesque.sim.clients.kafka_client import KafkaClient

VERSION: Final = 1
#: From one change to the next, about.
CHANGE_MS: Final = 900
#: Rates are lifted again so often after everything is healed: a request to set them may have been
#: on its way until then.
LIFT_AGAIN_MS: Final = 5_000
#: One change in so many lifts all limits.
LIFT_ONE_IN: Final = 3
#: Bytes a second: some are so low that a topic's retention is faster.
RATES: Final = (500, 2_000, 10_000, 50_000)

_TOPIC: Final = 2
_BROKER: Final = 4
_SET: Final = 0
_DELETE: Final = 1
_RATES: Final = (LEADER_RATE, FOLLOWER_RATE)
_LISTS: Final = tuple(option.name for option in TOPIC_REPLICATION_OPTIONS)
#: Stands for all brokers.
_ALL: Final = ""


class CopyThrottle:
    """Sets and lifts rates, of all brokers or of one."""

    def __init__(self, client: KafkaClient, topic: str, brokers: Sequence[int]) -> None:
        """`topic` is one whose replicas are listed as throttled, too, as Kafka's tools do it."""
        self._client: Final = client
        self._topic: Final = topic
        self._names: Final = (_ALL, *map(str, brokers))
        #: Limits that were set.
        self.count = 0
        self._is_ending = False
        #: Whether no limit is left.
        self.is_lifted = False
        self._change_later()

    def end(self) -> None:
        """Everything is healed: lift all limits, and set none."""
        self._is_ending = True
        self._lift_for_good()

    def _change_later(self) -> None:
        self._client.rest(self._change, CHANGE_MS)

    def _change(self) -> None:
        if self._is_ending:
            return
        below = self._client.env.dice.below
        if below(LIFT_ONE_IN) == 0:
            self._send(self._lifted(), lambda _: self._change_later())
            return
        # One of the two rates, the other, or both.
        which = 1 + below(3)
        rates = [name for at, name in enumerate(_RATES) if which & 1 << at]
        changes = [AlterableConfig(name, _SET, str(RATES[below(len(RATES))])) for name in rates]
        resources = [AlterConfigsResource(_BROKER, self._names[below(len(self._names))], changes)]
        if below(2):
            lists = [AlterableConfig(name, _SET, "*") for name in _LISTS]
            resources.append(AlterConfigsResource(_TOPIC, self._topic, lists))

        def on_done(is_done: bool) -> None:
            self.count += is_done
            self._change_later()

        self._send(resources, on_done)

    def _lifted(self) -> list[AlterConfigsResource]:
        rates = [AlterableConfig(name, _DELETE, None) for name in _RATES]
        lists = [AlterableConfig(name, _DELETE, None) for name in _LISTS]
        return [
            *(AlterConfigsResource(_BROKER, name, rates) for name in self._names),
            AlterConfigsResource(_TOPIC, self._topic, lists),
        ]

    def _lift_for_good(self) -> None:
        def on_done(is_done: bool) -> None:
            self.is_lifted = self.is_lifted or is_done
            if is_done:
                self._client.env.clock.call_later(LIFT_AGAIN_MS, self._lift_for_good)
            else:
                self._client.later(self._lift_for_good)

        self._send(self._lifted(), on_done)

    def _send(self, resources: Sequence[AlterConfigsResource], on_done: Any) -> None:
        def receive(response: Any) -> None:
            on_done(
                response is not None and not any(each.error_code for each in response.responses)
            )

        request = IncrementalAlterConfigsRequest(resources=resources)
        link = self._client.any_link()
        link.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, VERSION, request, receive)
