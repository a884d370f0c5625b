"""Brokers that find one another by gossip: whole ones, on simulated machines."""

import msgspec
import pytest

from kafkaesque.admin.health import reasons_against
from kafkaesque.env.network import Address
from kafkaesque.membership.entries import MemberState
from kafkaesque.membership.errors import Refusal
from kafkaesque.model.ids import GroupId, NodeId
from tests.sim.gossiping import ALIVE, DEAD, LEFT, NEW, OLD, PORT, Cluster


def test_brokers_find_one_another_from_one_address_each_and_know_what_each_tells() -> None:
    cluster = Cluster()
    cluster.found()
    fourth = cluster.start(4, [3])
    cluster.until_whole()
    cluster.loop.run_for(6_000)
    assert sorted(fourth.peers.peers()) == [1, 2, 3]
    for node in (1, 2, 3, 4):
        members = cluster.gossip(node).members()
        assert [member.node for member in members] == [1, 2, 3, 4]
        assert {member.state for member in members} == {ALIVE}
        assert members[3].facts["rack"] == "rack4"
        assert members[3].facts["kafka.address"] == "b4:9092"
        assert {"release", "partitions", "leaders", "disk.free.bytes"} <= set(members[3].facts)
        assert members[3].for_ms >= 5_000
        assert cluster.gossip(node).deaths == 0


def test_a_kill_is_known_to_all_soon_and_a_restart_undoes_it() -> None:
    cluster = Cluster()
    cluster.found()
    cluster.start(4, [1])
    cluster.until_whole()
    for victim in (4, 3):
        cluster.kill(victim)
        others = [broker.node for broker in cluster.brokers.values()]
        # Their links to it broke, and were refused: nobody has to wait for a probe.
        cluster.loop.run_for(50)
        assert ALIVE not in [cluster.state(each, victim) for each in others]
        cluster.loop.run_until(
            lambda victim=victim, others=others: all(  # type: ignore[misc]
                cluster.state(each, victim) is DEAD for each in others
            ),
            1_000,
        )
        assert not any(broker.peers.is_alive(NodeId(victim)) for broker in cluster.brokers.values())
        cluster.start(victim, [2])
        cluster.until_whole()
    assert not any(cluster.told(name, "turns this broker away") for name in cluster.reports)


def test_a_process_that_is_paused_for_seconds_is_not_taken_for_dead() -> None:
    cluster = Cluster()
    cluster.found()
    cluster.world.machines["b3"].pause()
    cluster.loop.run_for(4_500)
    assert cluster.state(1, 3) is MemberState.SUSPECT
    cluster.world.machines["b3"].resume()
    cluster.until_whole()
    cluster.loop.run_for(5_000)
    assert [cluster.gossip(node).deaths for node in (1, 2, 3)] == [0, 0, 0]


def test_who_stops_in_order_has_left_and_is_not_dead() -> None:
    cluster = Cluster()
    cluster.found()
    stopped: list[bool] = []
    leaver = cluster.brokers.pop("b3")
    leaver.stop(lambda: stopped.append(True))
    cluster.loop.run_until(lambda: bool(stopped), 10_000)
    cluster.world.machines["b3"].kill()
    cluster.loop.run_for(2_000)
    assert [cluster.state(node, 3) for node in (1, 2)] == [LEFT, LEFT]
    assert [cluster.gossip(node).deaths for node in (1, 2)] == [0, 0]
    # It is registered, so it is expected back.
    assert NodeId(3) in cluster.brokers["b1"].peers.peers()
    cluster.start(3, [2])
    cluster.until_whole()


def test_who_is_not_registered_and_leaves_is_dialled_no_more() -> None:
    cluster = Cluster()
    cluster.start(3)
    lone = cluster.start(4, [3])
    cluster.loop.run_until(lambda: cluster.brokers["b3"].peers.is_alive(NodeId(4)), 10_000)
    lone.stop(lambda: None)
    cluster.loop.run_until(lambda: NodeId(4) not in cluster.brokers["b3"].peers.peers(), 10_000)
    cluster.loop.run_for(2_000)
    assert cluster.state(3, 4) is LEFT


def test_a_broker_that_has_moved_is_reached_at_its_new_place() -> None:
    cluster = Cluster()
    cluster.found()
    cluster.start(4, [1])
    cluster.until_whole()
    cluster.kill(4)
    cluster.loop.run_for(1_000)
    cluster.start(4, [2], machine="elsewhere")
    cluster.until_whole()
    assert cluster.gossip(1).address(NodeId(4)) == Address("elsewhere", PORT)
    # What was registered before it moved, and is read only now, does not count.
    one = cluster.brokers["b1"]
    one.metadata_follower.on_broker_registered(
        msgspec.structs.replace(one.state.brokers[NodeId(4)], peer_host="b4")
    )
    cluster.loop.run_for(5_000)
    assert one.peers.is_linked(NodeId(4))


@pytest.mark.parametrize("secrets", [(NEW,), ()], ids=["another secret", "no secret"])
def test_a_stranger_is_kept_out_and_both_sides_say_why(secrets: tuple[bytes, ...]) -> None:
    cluster = Cluster()
    cluster.found()
    stranger = cluster.start(9, secrets=secrets, knows=True)
    cluster.loop.run_for(10_000)
    assert not stranger.life.is_ready
    for name in ("b1", "b2"):
        assert NodeId(9) not in cluster.brokers[name].peers.peers()
        assert NodeId(9) not in cluster.brokers[name].state.brokers
        (gossip,) = {cluster.brokers[name].gossip}
        assert gossip is not None
        assert gossip.state(NodeId(9)) is None
        assert (gossip.frames_refused[Refusal.UNKNOWN_KEY] > 0) is bool(secrets)
        assert cluster.told(name, "closing a peer connection from b9")
        assert bool(cluster.told(name, "gossip from b9:9190 is rejected")) is bool(secrets)
    turned_away = cluster.told("b9", "turns this broker away")
    assert len(turned_away) == 2, turned_away
    assert "cluster.secret.file" in turned_away[0]
    assert set(turned_away) <= set(cluster.errors["b9"])
    (reason,) = reasons_against(stranger.doors)
    assert reason.startswith("broker 1 turns this broker away: ")
    assert reason.endswith("cluster.secret.file (and so does broker 2)")
    # It may be the others that do not let in whom they turn away: they serve all the same.
    assert reasons_against(cluster.brokers["b1"].doors) == []
    assert len(cluster.told("b9", "has answered yet")) == bool(secrets)
    assert not any(
        broker.peers.is_alive(NodeId(9))
        for broker in cluster.brokers.values()
        if broker is not stranger
    )


def test_who_was_turned_away_says_so_until_it_is_let_in() -> None:
    cluster = Cluster()
    cluster.found()
    for node in (1, 2):
        cluster.kill(node)
    # The two that vote come back with a secret that the third does not have.
    for node in (1, 2):
        cluster.start(node, secrets=(NEW,), knows=True)
    third = cluster.brokers["b3"]
    cluster.loop.run_for(10_000)
    (reason,) = reasons_against(third.doors)
    assert "turns this broker away: it does not know this broker's secret" in reason
    for node in (1, 2):
        cluster.kill(node)
        cluster.start(node, [3])
    cluster.until_whole()
    cluster.loop.run_until(lambda: not reasons_against(third.doors), 10_000)
    assert third.peers.denials() == {}


def test_a_cluster_without_a_secret_turns_a_broker_with_one_away() -> None:
    cluster = Cluster()
    for node in (1, 2):
        cluster.start(node, secrets=(), knows=True)
    cluster.loop.run_until(lambda: cluster.brokers["b2"].life.is_ready, 10_000)
    cluster.start(3, knows=True)
    cluster.loop.run_for(5_000)
    assert not cluster.brokers["b3"].life.is_ready
    assert "has none" in cluster.told("b1", "closing a peer connection from b3")[0]
    assert "it has no cluster secret" in cluster.told("b3", "turns this broker away")[0]
    assert cluster.told("b1", "anybody who reaches b1:9190")


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ((OLD,), (OLD, NEW)),
        ((OLD, NEW), (OLD, NEW)),
        ((NEW, OLD), (OLD, NEW)),
        ((NEW, OLD), (NEW, OLD)),
        ((NEW, OLD), (NEW,)),
    ],
)
def test_the_secret_is_changed_one_broker_after_the_other(
    one: tuple[bytes, ...], two: tuple[bytes, ...]
) -> None:
    cluster = Cluster()
    cluster.start(1, secrets=one)
    cluster.start(2, [1], secrets=two)
    cluster.until_whole()
    for broker in cluster.brokers.values():
        assert broker.gossip is not None
        assert not any(broker.gossip.frames_refused.values())


def test_a_restart_with_a_clock_that_was_put_back_is_let_in_again() -> None:
    cluster = Cluster()
    cluster.found()
    cluster.loop.run_for(1_000)
    cluster.kill(3)
    cluster.world.machines["b3"].oscillator.jump_wall(-3_600_000)
    cluster.start(3, [1])
    cluster.until_whole()


def test_who_leads_is_heard_by_gossip_and_taken_back() -> None:
    cluster = Cluster()
    cluster.found()
    three = cluster.brokers["b3"]
    one = cluster.gossip(1)
    for group in range(250):
        cluster.gossip(3).leads(group, 7)  # type: ignore[arg-type]
    cluster.loop.run_for(1_500)
    leaders = cluster.brokers["b1"].leaders
    assert [one.leader(GroupId(group), 7) for group in (0, 249)] == [(3, 7), (3, 7)]
    assert one.leader(5, 8) is None  # type: ignore[arg-type]
    assert leaders.leader(5) == 3  # type: ignore[arg-type]
    # It leads none of them, in truth.
    cluster.loop.run_for(10_000)
    assert one.leader(5, 0) is None  # type: ignore[arg-type]
    assert three.gossip is not None
    assert three.gossip.rumours == 0


def test_a_broker_whose_disk_has_failed_leaves() -> None:
    cluster = Cluster()
    cluster.found()
    cluster.brokers["b3"]._on_disk_failed(OSError("broken"))
    cluster.loop.run_for(3_000)
    assert [cluster.state(node, 3) for node in (1, 2)] == [LEFT, LEFT]
    assert [cluster.gossip(node).deaths for node in (1, 2)] == [0, 0]
