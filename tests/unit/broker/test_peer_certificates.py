"""Brokers that speak TLS with one another: only a broker's own certificate makes it that broker."""

from __future__ import annotations

import pytest

from kafkaesque.broker.config import PeerTimings
from kafkaesque.broker.peers.greeting import Greeter
from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.broker.peers.messages import Denial, read_claimed, read_denial
from kafkaesque.broker.peers.papers import Papers
from kafkaesque.env import Env
from kafkaesque.env.certificate import PeerCertificate, broker_uri, user_uri
from kafkaesque.env.network import Address, Framing, ListenOptions
from kafkaesque.model.ids import NodeId
from kafkaesque.sim.env import World
from kafkaesque.sim.tls import SimTls
from tests.unit.broker.test_peer_port import CLUSTER, PORT, Events, framed, hello
from tests.unit.env.worlds import Recorder

ISSUER = "CN=the authority"


def certificate(*uris: str, subject: str = "CN=broker-1") -> PeerCertificate:
    return PeerCertificate(
        subject=subject, issuer=ISSUER, serial=1, not_after_ms=2**60, uris=uris,
        common_names=(subject.removeprefix("CN="),),
    )  # fmt: skip


def of_broker(node: int, cluster: str = CLUSTER) -> PeerCertificate:
    return certificate(broker_uri(cluster, node))


class Place:
    """Machines `b1`, `b2`, ... with brokers, and `elsewhere` for strangers."""

    def __init__(self) -> None:
        self.world = World(1)
        self.reports: dict[int, list[str]] = {}
        self.stranger = self.world.add_machine("elsewhere")
        self.stranger_env = self.stranger.boot()

    def broker(
        self,
        number: int,
        shown: PeerCertificate | None,
        machine: str | None = None,
        mode: str = "on",
    ) -> PeerNetwork:
        """Start a broker that shows this; None speaks in the clear."""
        name = machine or f"b{number}"
        made = self.world.add_machine(name)
        env: Env = made.boot()
        if shown is not None:
            made.host.tls["peers"] = SimTls(certificate=shown, trusted=frozenset([ISSUER]))
        reports = self.reports.setdefault(number, [])
        greeter = Greeter(
            node=NodeId(number),
            cluster_id=CLUSTER,
            incarnation=100 + number,
            advertised=Address(name, PORT),
        )
        peers = PeerNetwork(
            env=env,
            node=NodeId(number),
            greeter=greeter,
            timings=PeerTimings(),
            papers=Papers(
                CLUSTER,
                "" if shown is None else "peers",
                dials_tls=mode != "accept",
                is_optional=mode != "on",
            ),
            events=Events(),
            report=reports.append,
        )
        peers.listen(Address(name, PORT))
        peers.start()
        return peers

    def dial(self, shown: PeerCertificate, data: bytes) -> Recorder:
        """Connect to broker 1 as a stranger with a certificate, and say something."""
        self.stranger.host.tls["peers"] = SimTls(certificate=shown, trusted=frozenset([ISSUER]))
        options = ListenOptions(framing=Framing.LENGTH_PREFIXED, tls="peers")
        stranger = Recorder()
        network = self.stranger_env.network
        network.connect(Address("b1", PORT), options, stranger, stranger.failed.append)
        self.world.loop.run_until(lambda: stranger.connection is not None, 5_000)
        stranger.link.write([data])
        self.world.loop.run_for(500)
        return stranger

    def run_for(self, ms: int) -> None:
        self.world.loop.run_for(ms)


def test_brokers_with_their_own_certificates_meet() -> None:
    place = Place()
    one, two = place.broker(1, of_broker(1)), place.broker(2, of_broker(2))
    one.add_peer(NodeId(2), Address("b2", PORT))
    place.world.loop.run_until(lambda: one.is_alive(NodeId(2)) and two.is_alive(NodeId(1)), 10_000)
    assert place.reports == {1: [], 2: []}


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        (certificate(user_uri(CLUSTER, "app")), "names no broker of this cluster"),
        (certificate(user_uri(CLUSTER, "broker/77")), "names no broker of this cluster"),
        (certificate(), "names no broker of this cluster"),
        (of_broker(77, "another cluster"), "names no broker of this cluster"),
        (certificate(broker_uri(CLUSTER, 77), user_uri(CLUSTER, "app")), "names no broker"),
        (certificate(broker_uri(CLUSTER, 77), broker_uri(CLUSTER, 2)), "names no broker"),
        (certificate(f"KAFKAESQUE://{CLUSTER}/broker/77"), "names no broker"),
        (of_broker(2), "it says that it is broker 77, and its certificate names"),
        (certificate(broker_uri(CLUSTER, 2), subject="CN=broker-77"), "it says that it is broker"),
        (of_broker(770), "it says that it is broker 77, and its certificate names"),
    ],
    ids=["client", "client called so", "nobody", "other cluster", "both", "two", "spelling",
         "another", "another by name", "longer"],
)  # fmt: skip
def test_no_other_certificate_makes_anybody_broker_77(shown: PeerCertificate, reason: str) -> None:
    place = Place()
    one = place.broker(1, of_broker(1))
    stranger = place.dial(shown, hello())
    assert stranger.closed
    assert one.incarnation(NodeId(77)) is None
    assert one.peers() == []
    assert len(place.reports[1]) == 1
    assert reason in place.reports[1][0]


def test_its_own_certificate_does() -> None:
    place = Place()
    one = place.broker(1, of_broker(1))
    stranger = place.dial(of_broker(77), hello())
    assert not stranger.closed
    assert one.incarnation(NodeId(77)) == 5


def test_who_greets_as_another_is_told_why() -> None:
    place = Place()
    place.broker(1, of_broker(1))
    stranger = place.dial(of_broker(2), hello())
    assert [read_denial(each) for each in stranger.pieces] == [Denial.OTHER_CERTIFICATE]


def test_nobody_asks_about_the_id_of_another() -> None:
    place = Place()
    place.broker(1, of_broker(1))
    asker = Greeter(
        node=NodeId(77), cluster_id=CLUSTER, incarnation=5, advertised=Address("elsewhere", 9)
    )
    claim = framed(*asker.write_claim())
    assert [read_claimed(each).node for each in place.dial(of_broker(77), claim).pieces] == [1]
    stranger = place.dial(of_broker(2), claim)
    assert [read_denial(each) for each in stranger.pieces] == [Denial.OTHER_CERTIFICATE]


@pytest.mark.parametrize(
    "shown", [of_broker(3), certificate(user_uri(CLUSTER, "app")), certificate()],
    ids=["broker 3", "a client", "nobody"],
)  # fmt: skip
def test_a_broker_says_nothing_to_who_only_listens_at_anothers_address(
    shown: PeerCertificate,
) -> None:
    """Broker 2's address was taken over by somebody with a certificate of the same authority."""
    place = Place()
    one = place.broker(1, of_broker(1))
    impostor = place.stranger
    impostor.host.tls["peers"] = SimTls(certificate=shown, trusted=frozenset([ISSUER]))
    heard: list[Recorder] = []

    def accept() -> Recorder:
        heard.append(Recorder())
        return heard[-1]

    options = ListenOptions(framing=Framing.STREAM, tls="peers")
    place.stranger_env.network.listen(Address("elsewhere", PORT), options, accept)
    one.add_peer(NodeId(2), Address("elsewhere", PORT))
    place.run_for(3_000)
    assert len(heard) > 1
    assert {each.stream for each in heard} == {b""}
    assert not one.is_linked(NodeId(2))
    (said,) = place.reports[1]
    assert "is not spoken with: its certificate does not name broker 2" in said


def test_a_broker_in_the_clear_and_one_with_tls_do_not_meet_and_say_so() -> None:
    place = Place()
    one, two = place.broker(1, of_broker(1)), place.broker(2, None)
    one.add_peer(NodeId(2), Address("b2", PORT))
    two.add_peer(NodeId(1), Address("b1", PORT))
    place.run_for(5_000)
    assert not one.is_alive(NodeId(2))
    assert not two.is_alive(NodeId(1))
    (said,) = place.reports[1]
    assert "one side speaks TLS, the other does not" in said


def test_without_tls_nothing_is_asked_for() -> None:
    papers = Papers(CLUSTER, "")
    papers.check_any(None)
    papers.check(None, NodeId(1))
    assert papers.is_dialled(None, NodeId(1))


STEPS = ["off", "accept", "dial", "on"]


@pytest.mark.parametrize("first", STEPS)
@pytest.mark.parametrize("second", STEPS)
def test_a_cluster_goes_over_to_tls_step_by_step(first: str, second: str) -> None:
    """Brokers that are one step apart meet; those that are not may not."""
    place = Place()
    one, two = (
        place.broker(number, None if mode == "off" else of_broker(number), mode=mode)
        for number, mode in ((1, first), (2, second))
    )
    one.add_peer(NodeId(2), Address("b2", PORT))
    two.add_peer(NodeId(1), Address("b1", PORT))
    place.run_for(5_000)
    meet = one.is_alive(NodeId(2)) and two.is_alive(NodeId(1))
    assert meet == (abs(STEPS.index(first) - STEPS.index(second)) <= 1)


def test_a_certificate_counts_also_where_none_is_needed() -> None:
    place = Place()
    one = place.broker(1, of_broker(1), mode="accept")
    stranger = place.dial(of_broker(2), hello())
    assert stranger.closed
    assert one.peers() == []
