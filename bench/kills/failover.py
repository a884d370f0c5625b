"""After a blow: how long until everything that the victim led is acknowledged again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from bench.kills.ledger import Ledger, Resumed, Where
from bench.kills.schedule import Blow
from bench.kills.wire import BrokerProbe, View

PROBE_TIMEOUT_S = 0.5
PROBE_INTERVAL_S = 0.005
WATCH_S_MAX = 60.0


class Failover(threading.Thread):
    """Asks the brokers that can answer until each partition has acknowledged a record again.

    A record of its own number is sent to whoever is said to lead, by a connection that never
    repeats anything: what is measured is the brokers. What the load's clients see, with their
    back-off, is beside it in `resumed`.
    """

    def __init__(
        self,
        blow: Blow,
        since: float,
        lost: Sequence[Where],
        *,
        ports: Sequence[int],
        is_answering: Callable[[int], bool],
        ledger: Ledger,
        probes: dict[Where, list[int]],
    ) -> None:
        """`lost` are the partitions to watch; `is_answering` tells by a broker's place."""
        super().__init__(name="failover", daemon=True)
        self.blow = blow
        self.since = since
        self.lost = list(lost)
        #: Seconds from the blow, by partition.
        self.took_s: dict[Where, float] = {}
        self.resumed: dict[Where, Resumed] = {each: ledger.watch(each, since) for each in lost}
        self._probes = [BrokerProbe(port, PROBE_TIMEOUT_S) for port in ports]
        self._is_answering = is_answering
        self._acknowledged = probes
        self._topics = sorted({topic for topic, _ in lost})
        self._ending = threading.Event()

    def run(self) -> None:
        left = dict.fromkeys(self.lost)
        deadline = self.since + WATCH_S_MAX
        while left and time.monotonic() < deadline and not self._ending.is_set():
            for place in range(len(self._probes)):
                view = self._view(place)
                for where in list(left):
                    if self._acknowledges(view, where):
                        self.took_s[where] = time.monotonic() - self.since
                        del left[where]
            time.sleep(PROBE_INTERVAL_S)
        for probe in self._probes:
            probe.close()

    def stop(self) -> None:
        """Watch no longer."""
        self._ending.set()
        self.join()

    def _view(self, place: int) -> View:
        if not self._is_answering(place):
            return {}
        try:
            return self._probes[place].metadata(self._topics)
        except OSError:
            return {}

    def _acknowledges(self, view: View, where: Where) -> bool:
        found = view.get(where)
        if found is None or found.leader < 1 or not self._is_answering(found.leader - 1):
            return False
        try:
            error, offset = self._probes[found.leader - 1].produce(*where, b"probe")
        except OSError:
            return False
        if error:
            return False
        self._acknowledged.setdefault(where, []).append(offset)
        return True
