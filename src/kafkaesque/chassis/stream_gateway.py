"""A gateway whose protocol is a stream of bytes: it is spoken over TCP, and over WebSocket."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar

from kafkaesque.broker.listeners import Listener
from kafkaesque.chassis.gateway import Gateway
from kafkaesque.chassis.link import ClientConnection, PortOptions, Shared
from kafkaesque.chassis.port import Port
from kafkaesque.chassis.web_socket import Payload, Route
from kafkaesque.env.network import Address


class StreamGateway(Gateway):
    """What such gateways inherit from; each says its bounds, and makes its connections.

    A connection over WebSocket is like any other: it is counted for the protocol, under the name of
    the listener of WebSockets.
    """

    protocol: ClassVar[str]
    payload: ClassVar[Payload]
    #: Names of `Sec-WebSocket-Protocol`, the best one first, and whether one has to be offered.
    subprotocols: ClassVar[tuple[str, ...]]
    needs_subprotocol: ClassVar[bool] = False

    @abstractmethod
    def options(self, listener: Listener) -> PortOptions:
        """Return the bounds of a listener's connections."""

    @abstractmethod
    def make_connection(self, shared: Shared) -> ClientConnection:
        """Return what serves one client."""

    def begin(self) -> None:
        """A listener is about to be opened."""

    def start(self, listener: Listener) -> Address:
        """Listen, at one more port if there is one; return the bound address.

        Raises:
            OSError: the address cannot be bound.
        """
        self.begin()
        return self.listen(listener.address, self.options(listener), self.make_connection)

    def route(self, listener: Listener) -> Route:
        """Serve what comes by a listener of WebSockets; return what is to be known of it there."""
        self.begin()
        options = replace(self.options(listener), protocol=self.protocol, refuses_http=False)
        port = Port(self.chassis, options, self.make_connection)
        self.ports.append(port)
        return Route(
            make=port.serve(),
            payload=self.payload,
            subprotocols=self.subprotocols,
            needs_subprotocol=self.needs_subprotocol,
        )
