"""`/cluster`, `/brokers`, `/controllers`, `/doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from kafkaesque.admin.api.calls import Call, NoQuery
from kafkaesque.admin.api.context import Context, SharedView
from kafkaesque.admin.api.fan_out import Gathered
from kafkaesque.admin.api.finding_part import CRITICAL, NAMES_MAX, WARNING
from kafkaesque.admin.api.paging import ListQuery, sort_field, take_page, wants
from kafkaesque.admin.api.part_pages import BROKER, FINDINGS, FindingsAnswer, Nothing
from kafkaesque.admin.api.values import (
    Broker,
    BrokerList,
    BrokerState,
    BrokerView,
    ClusterView,
    Controller,
    ControllersView,
    DoctorView,
    Endpoint,
    Finding,
    Origin,
    Rates,
)
from kafkaesque.admin.census import Census
from kafkaesque.broker.requests.commands import ControllersView as Quorum
from kafkaesque.model.counted import counted, have
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import NodeId

#: So long the leading controller may take to say how its group is.
CONTROLLERS_MS_MAX = 2_000

_BROKER_KEYS = {"id": lambda each: each.id, "rack": lambda each: each.rack}


class ClusterPages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context
        # Every console asks for these all the time.
        clock = context.doors.clock
        self._clusters: SharedView[ClusterView] = SharedView(clock, self._make_cluster)
        self._findings: SharedView[DoctorView] = SharedView(clock, self._make_findings)

    # -- /cluster

    def show_cluster(self, call: Call[NoQuery, None]) -> None:
        """Add up what brokers say of themselves."""
        self._clusters.take(call.answer)

    def _make_cluster(self, on_done: Callable[[ClusterView], None]) -> None:
        def on_gathered(gathered: Gathered[BrokerState]) -> None:
            self._context.census.take(lambda census: on_done(self._cluster(gathered, census)))

        self._context.fan_out.ask_all(BROKER, Nothing(), on_gathered)

    def _cluster(self, gathered: Gathered[BrokerState], census: Census) -> ClusterView:
        context, cluster = self._context, self._context.doors.cluster
        states, metadata = list(gathered.answers.values()), cluster.state
        return ClusterView(
            as_of=context.now(),
            seen_by=context.node,
            sources=gathered.sources,
            cluster_id=cluster.cluster_id,
            version=context.version,
            controller=cluster.controller(),
            controllers=list(cluster.controllers()),
            brokers=len(metadata.brokers),
            brokers_alive=len(cluster.alive_brokers()),
            topics=len(metadata.topics),
            partitions=len(metadata.partitions_by_group),
            leaderless=census.leaderless,
            moving=len(metadata.moving),
            recovering=sum(each.is_open for each in metadata.recoveries.values()),
            under_replicated=sum(each.under_replicated for each in states),
            under_min_isr=sum(each.under_min_isr for each in states),
            log_bytes=sum(each.log_bytes for each in states),
            connections=sum(each.connections for each in states),
            groups=sum(each.groups for each in states),
            transactions_open=sum(each.transactions_open for each in states),
            rates=_sum_of_rates(states),
        )

    def _leaderless(self) -> list[str]:
        cluster = self._context.doors.cluster
        return [
            str(state.topic_partition)
            for group, state in cluster.state.partitions_by_group.items()
            if cluster.leaders.leader(group) is None
        ]

    # -- /brokers

    def list_brokers(self, call: Call[ListQuery, None]) -> None:
        """List registered brokers."""
        query = call.query
        sort_field(query, _BROKER_KEYS, "id")

        def show(gathered: Gathered[BrokerState]) -> None:
            every = [self._broker(node, gathered) for node in self._context.fan_out.all_brokers()]
            found = [each for each in every if wants(query, _words_of(each))]
            page = take_page(found, query, _BROKER_KEYS, "id")
            call.answer(self._context.page_view(BrokerList, page, gathered.sources))

        self._context.fan_out.ask_all(
            BROKER, Nothing(), lambda gathered: call.guard(lambda: show(gathered))
        )

    def show_broker(self, call: Call[NoQuery, None]) -> None:
        """Show one broker."""
        text = call.params["broker"]
        node = NodeId(int(text)) if text.isascii() and text.isdigit() else None
        if node is None or node not in self._context.fan_out.all_brokers():
            call.refuse(404, "UnknownBroker", f"there is no broker {text}")
            return

        def on_gathered(gathered: Gathered[BrokerState]) -> None:
            call.answer(
                BrokerView(
                    as_of=self._context.now(),
                    seen_by=self._context.node,
                    sources=gathered.sources,
                    broker=self._broker(node, gathered),
                )
            )

        self._context.fan_out.ask_all(BROKER, Nothing(), on_gathered, [node])

    def _broker(self, node: NodeId, gathered: Gathered[BrokerState]) -> Broker:
        doors = self._context.doors
        cluster, clock = doors.cluster, doors.clock
        told, is_alive = cluster.state.brokers.get(node), cluster.is_alive(node)
        lost_ms = cluster.lost_ms(node)
        endpoints = {} if told is None else told.endpoints
        return Broker(
            id=node,
            is_alive=is_alive,
            lost_ms=max(0, clock.now_ms() - lost_ms) if not is_alive and lost_ms else None,
            rack=None if told is None else told.rack,
            peer_address="" if told is None else f"{told.peer_host}:{told.peer_port}",
            endpoints=[
                Endpoint(name=name, protocol=each.protocol, address=f"{each.host}:{each.port}")
                for name, each in endpoints.items()
            ],
            is_controller=node in cluster.controllers(),
            leads_controllers=node == cluster.controller(),
            state=gathered.answers.get(node),
        )

    # -- /controllers

    def show_controllers(self, call: Call[NoQuery, None]) -> None:
        """Show who votes on metadata, as the one that leads says, or as this broker knows."""

        def on_told(outcome: Quorum | RequestRefused) -> None:
            call.answer(self._controllers(outcome))

        self._context.doors.cluster.describe_controllers(CONTROLLERS_MS_MAX, on_told)

    def _controllers(self, outcome: Quorum | RequestRefused) -> ControllersView:
        context, cluster = self._context, self._context.doors.cluster
        if isinstance(outcome, Quorum):
            found = [
                Controller(
                    broker=each.node,
                    is_voter=each.is_voter,
                    is_alive=each.is_alive,
                    leads=each.node == outcome.leader,
                    end_offset=each.end_offset if each.end_offset >= 0 else None,
                    has_all=each.has_all,
                )
                for each in outcome.copies
            ]
        else:
            found = [
                Controller(
                    broker=node,
                    is_voter=True,
                    is_alive=cluster.is_alive(node),
                    leads=False,
                    end_offset=None,
                    has_all=None,
                )
                for node in cluster.controllers()
            ]
        told = outcome if isinstance(outcome, Quorum) else None
        return ControllersView(
            as_of=context.now(),
            seen_by=context.node,
            leader=cluster.controller() if told is None else told.leader,
            term=None if told is None else told.term,
            high_watermark=None if told is None else told.high_watermark,
            missing=str(outcome) if told is None else None,
            controllers=found,
        )

    # -- /doctor

    def show_findings(self, call: Call[NoQuery, None]) -> None:
        """Gather what brokers know to be wrong."""
        self._findings.take(call.answer)

    def _make_findings(self, on_done: Callable[[DoctorView], None]) -> None:
        def on_gathered(gathered: Gathered[FindingsAnswer]) -> None:
            told = [each for answer in gathered.answers.values() for each in answer.findings]
            found = [*self._check_cluster(gathered.sources), *_merged(told)]
            found.sort(key=lambda each: each.severity != CRITICAL)
            on_done(
                DoctorView(
                    as_of=self._context.now(),
                    seen_by=self._context.node,
                    sources=gathered.sources,
                    findings=found,
                )
            )

        self._context.fan_out.ask_all(FINDINGS, Nothing(), on_gathered)

    def _check_cluster(self, sources: Sequence[Origin]) -> Iterator[Finding]:
        cluster = self._context.doors.cluster
        if cluster.controller() is None:
            yield Finding(
                check="controllers-missing",
                severity=CRITICAL,
                what="no controller leads: topics, groups and options cannot be changed",
                cause=f"of the controllers {list(cluster.controllers())} no majority is up",
                command="start the controllers that are down; kafkaesque doctor",
                names=[str(node) for node in cluster.controllers()],
            )
        down = [each for each in sources if each.missing is not None]
        for each in down:
            is_alive = cluster.is_alive(NodeId(each.broker))
            yield Finding(
                check="broker-hangs" if is_alive else "broker-down",
                severity=CRITICAL,
                what=f"broker {each.broker} {'does not answer' if is_alive else 'is down'}",
                cause=each.missing or "",
                command="start it; kafkaesque doctor says more",
                names=[str(each.broker)],
            )
        leaderless = self._leaderless()
        if leaderless:
            is_one = len(leaderless) == 1
            yield Finding(
                check="leaderless",
                severity=CRITICAL,
                what=f"{counted(len(leaderless), 'partition')} {have(len(leaderless))} no leader: "
                f"{'it' if is_one else 'they'} cannot be read or written",
                cause="no majority of their replicas is up",
                command="start the brokers that are down; kafkaesque doctor",
                names=leaderless[:NAMES_MAX],
            )
        if len(cluster.state.brokers) == 1:
            yield Finding(
                check="single-broker",
                severity=WARNING,
                what="there is one broker: when it is down, everything is",
                cause="the cluster has never had another one, or they were removed",
                command="kafkaesque up --brokers 3",
                names=[],
            )


def _merged(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Make one finding of those that several brokers have of their own partitions."""
    by_check: dict[str, list[Finding]] = {}
    for each in findings:
        by_check.setdefault(each.check, []).append(each)
    for check, found in by_check.items():
        if len(found) == 1 or check not in ("under-min-insync", "under-replicated"):
            yield from found
            continue
        names = [name for each in found for name in each.names]
        count = sum(int(each.what.split()[0]) for each in found)
        what = f"{count} {found[0].what.partition(' ')[2]}"
        yield msgspec.structs.replace(found[0], what=what, names=names[:NAMES_MAX])


def _words_of(broker: Broker) -> str:
    return " ".join([str(broker.id), broker.rack or "", *(e.address for e in broker.endpoints)])


def _sum_of_rates(states: Sequence[BrokerState]) -> Rates:
    rates = [each.rates for each in states]
    return Rates(
        messages_in=sum(each.messages_in for each in rates),
        bytes_in=sum(each.bytes_in for each in rates),
        bytes_out=sum(each.bytes_out for each in rates),
        requests=sum(each.requests for each in rates),
    )
