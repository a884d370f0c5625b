"""A broker with ports of a protocol on which clients log in, may log in, or need not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import AccessMode, default_listener
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.env.network import Address
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.secured import SECRET, SUPER, add_user

ResultT = TypeVar("ResultT")
SecuredT = TypeVar("SecuredT", bound="SecuredPorts")


class SecuredPorts:
    """See the module; a protocol's tests add its clients."""

    def __init__(
        self,
        live: LiveCluster,
        make_gateway: Callable[[Doors, Chassis], Any],
        protocol: str,
        users: Sequence[str] = ("root", "other"),
    ) -> None:
        self.live = live
        node = live.nodes[1]
        self.gateway = make_gateway(node.broker.doors, node.chassis)
        self.ports: dict[AccessMode, int] = {}
        for mode in AccessMode:
            listener = default_listener(protocol, Address("127.0.0.1", 0), access=mode)
            named = replace(listener, name=f"{protocol}-{mode.value}")
            self.ports[mode] = self.gateway.start(named).port
        for user in users:
            add_user(live, user)

    def in_thread(self, act: Callable[[], ResultT]) -> ResultT:
        """Do something in another thread: the broker runs in this one."""
        return self.result(self.begin_in_thread(act))

    def result(self, end: Future[ResultT]) -> ResultT:
        """Wait for what is done in another thread."""
        self.live.wait(end.done, "the client is done")
        return end.result()

    def begin_in_thread(self, act: Callable[[], ResultT]) -> Future[ResultT]:
        """Do something in another thread, while this one can do something else."""
        end: Future[ResultT] = Future()

        def run() -> None:
            try:
                end.set_result(act())
            except BaseException as error:
                end.set_exception(error)

        Thread(target=run, daemon=True).start()
        return end


@contextmanager
def at_secured_ports(
    directory: Path, make: Callable[[LiveCluster], SecuredT]
) -> Iterator[SecuredT]:
    """Make such a broker, and stop it afterwards."""
    live = LiveCluster(directory, access=AccessMode.REQUIRED, secrets=[SECRET], super_users=[SUPER])
    found = make(live)
    yield found
    found.gateway.stop()
    live.close()
