"""The listeners of WebSockets: each path leads to a gateway."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Final

from kafkaesque.broker.listeners import Listener
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.gateway import Gateway
from kafkaesque.chassis.link import PortOptions
from kafkaesque.chassis.stream_gateway import StreamGateway
from kafkaesque.chassis.web_socket import OriginRule, WebSocketLink
from kafkaesque.env.network import Address

#: Of one listener, over all protocols.
CONNECTIONS_MAX: Final = 20_000


class WebSocketGateway(Gateway):
    """One broker's ports for WebSockets.

    What comes here is a handshake; from then on the connection is the other gateway's, which has
    a port of its own for this listener: limits, silence, drain and metrics are there.
    """

    def __init__(
        self,
        chassis: Chassis,
        speakers: Mapping[str, StreamGateway],
        host_names: Callable[[], Collection[str]],
    ) -> None:
        """`speakers` are by path; `host_names` are what these listeners are known by."""
        super().__init__(chassis)
        self._speakers: Final = speakers
        self._host_names: Final = host_names

    def start(self, listener: Listener) -> Address:
        """Listen, at one more port if there is one; return the bound address.

        Raises:
            OSError: the address cannot be bound.
        """
        routes = {path: speaker.route(listener) for path, speaker in self._speakers.items()}
        rule = OriginRule(
            host_names=frozenset(self._host_names()), origins=frozenset(listener.origins)
        )
        clock = self.chassis.clock
        options = replace(PortOptions.of(listener), connections_max=CONNECTIONS_MAX)
        return self.listen(listener.address, options, lambda _: WebSocketLink(routes, rule, clock))
