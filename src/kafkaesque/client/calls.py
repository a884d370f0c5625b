"""One request to whichever broker answers, asked again as long as that is safe."""

import time
from collections.abc import Callable
from typing import Any, Final

from kafkaesque.client.config import ClientConfig
from kafkaesque.client.connections import AGAIN_S_MAX, AGAIN_S_MIN, BROKEN, Connections
from kafkaesque.client.errors import (
    PASSING,
    UNCERTAIN,
    BrokerUnavailable,
    InvalidArgument,
    OutcomeUnknown,
    Timeout,
    error_of,
    name_of,
)
from kafkaesque.client.steps import Sleep, Steps
from kafkaesque.protocols.kafka.wire import Message

#: A broker that has not answered after so long is given up, if the next one may be asked the same.
ATTEMPT_S_MAX: Final = 10.0
#: Brokers end a request by themselves; the client waits for so much longer.
SPARE_S: Final = 2.0
VERSION: Final = 0


class Calls:
    """How a client asks."""

    __slots__ = ("config", "connections", "monotonic")

    def __init__(
        self, config: ClientConfig, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.config = config
        self.monotonic = monotonic
        self.connections = Connections(config, monotonic)

    def deadline(self, timeout_s: float | None) -> float:
        """Return when a call ends that may take so long, on the monotonic clock.

        Raises:
            InvalidArgument: a timeout that is not above 0.
        """
        if timeout_s is not None and not timeout_s > 0:
            raise InvalidArgument(f"a timeout is more than 0 seconds, not {timeout_s}")
        return self.monotonic() + (self.config.timeout_s if timeout_s is None else timeout_s)

    def ask(
        self,
        what: str,
        api_key: int,
        make: Callable[[int], Message],
        deadline_s: float,
        *,
        is_repeatable: bool,
        wait_s: float = 0,
    ) -> Steps[Any]:
        """Return the answer to a request, which `make` makes for so many milliseconds.

        With `is_repeatable` it is asked again also if nobody knows whether it was done. `wait_s` is
        how long the broker is asked to wait before it answers.

        Raises:
            OutcomeUnknown: it may be done. BrokerUnavailable, Timeout: it is not.
            KafkaesqueError: as the broker refuses it.
        """
        again_s, is_uncertain, last = AGAIN_S_MIN, False, ""
        while True:
            left_s = deadline_s - self.monotonic()
            if left_s <= 0:
                raise _too_late(what, last, is_uncertain)
            attempt_s = min(left_s, max(ATTEMPT_S_MAX, 2 * wait_s)) if is_repeatable else left_s
            try:
                link = yield from self.connections.take(deadline_s)
            except BrokerUnavailable as error:
                if is_uncertain:
                    raise OutcomeUnknown(f"{what}: {last}; then {error}") from None
                raise
            request = make(max(1, int(attempt_s * 1000)))
            try:
                answer = yield from self.connections.ask(
                    link, (api_key, VERSION), request, attempt_s + SPARE_S
                )
            except BROKEN as error:
                self.connections.drop(link)
                last, is_uncertain = f"{link.address} did not answer: {error!r}", True
            except BaseException:
                self.connections.drop(link)
                raise
            else:
                self.connections.give_back(link)
                if not answer.error_code:
                    return answer
                last = answer.error_message or name_of(answer.error_code)
                if answer.error_code in UNCERTAIN:
                    is_uncertain = True
                elif answer.error_code not in PASSING:
                    raise error_of(answer.error_code, answer.error_message, what)
            if is_uncertain and not is_repeatable:
                raise _too_late(what, last, is_uncertain)
            yield Sleep(again_s)
            again_s = min(2 * again_s, AGAIN_S_MAX)


def _too_late(what: str, last: str, is_uncertain: bool) -> OutcomeUnknown | Timeout:
    said = f": {last}" if last else ""
    if is_uncertain:
        return OutcomeUnknown(f"{what}: it is not known whether it was done{said}")
    return Timeout(f"{what}: not done in time{said}")
