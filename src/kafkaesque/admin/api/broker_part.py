"""What a broker says of itself: the parts `broker`, `listeners` and `series`."""

from typing import Final

from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import OnAnswer, PartServer
from kafkaesque.admin.api.part_pages import (
    BROKER,
    LISTENERS,
    SERIES,
    ListenersAnswer,
    SeriesAnswer,
    SeriesQuestion,
)
from kafkaesque.admin.api.values import BrokerState, ListenerState, Rates
from kafkaesque.admin.census import Census
from kafkaesque.admin.health import reasons_against
from kafkaesque.admin.process_facts import read_process_facts
from kafkaesque.admin.series import NAMES
from kafkaesque.model.errors import DiskFailed, InvalidRequest

#: Rates are those of so many ms.
RATE_MS: Final = 10_000


def register(context: Context, server: PartServer) -> None:
    """Have these parts served."""
    server.register(BROKER, lambda _, done: _answer_broker(context, done))
    server.register(LISTENERS, lambda _, done: done(_listeners(context)))
    server.register(SERIES, lambda question, done: done(_series(context, question)))


def _answer_broker(context: Context, on_done: OnAnswer) -> None:
    context.census.take(lambda census: on_done(_broker(context, census)))


def _broker(context: Context, census: Census) -> BrokerState:
    doors, process = context.doors, read_process_facts()
    condition = doors.condition
    recovery = condition.partitions.recovery_state()
    free_bytes, total_bytes = _space(context)
    hosts = [each for each in doors.transactions.coordinators.all() if each.is_loaded]
    started = process.start_seconds
    return BrokerState(
        version=context.version,
        is_ready=not reasons_against(doors),
        reasons=reasons_against(doors),
        has_failed=condition.life.failure is not None,
        started_at=None if started is None else int(started * 1000),
        partitions_led=census.led,
        replicas=census.replicas,
        under_replicated=census.under_replicated,
        under_min_isr=census.under_min_isr,
        damaged_replicas=len({*recovery.damaged, *condition.scrubber.damaged}),
        recovering_replicas=len(recovery.unopened) + len(recovery.copied),
        log_bytes=census.log_bytes,
        disk_free_bytes=free_bytes,
        disk_total_bytes=total_bytes,
        refuses_appends=condition.store.refusal is not None,
        connections=sum(meter.open for meter in context.chassis.meters.values()),
        groups=census.groups,
        transactions_open=sum(len(host.table.open_since_ms()) for host in hosts),
        resident_bytes=process.resident_bytes,
        cpu_seconds=process.cpu_seconds,
        open_files=process.open_files,
        open_files_max=process.open_files_max,
        metadata_offset=condition.metadata.applied_offset,
        clock=doors.clock.wall_ms(),
        rates=_rates(context),
    )


def _space(context: Context) -> tuple[int | None, int | None]:
    disk = context.doors.condition.disk
    try:
        return disk.free_bytes(), disk.total_bytes()
    except DiskFailed:
        return None, None


def _rates(context: Context) -> Rates:
    names = ("messages_in", "bytes_in", "bytes_out", "requests")
    times, columns = context.sampler.fine.read(names, context.now() - RATE_MS)
    seconds = (times[-1] - times[0]) / 1000 if len(times) > 1 else 0.0
    found = {
        name: max(0.0, (column[-1] - column[0]) / seconds) if seconds > 0 else 0.0
        for name, column in zip(names, columns, strict=True)
    }
    return Rates(
        messages_in=found["messages_in"],
        bytes_in=found["bytes_in"],
        bytes_out=found["bytes_out"],
        requests=found["requests"],
    )


def _listeners(context: Context) -> ListenersAnswer:
    doors = context.doors
    told = doors.cluster.state.brokers.get(context.node)
    found = []
    for (protocol, name), meter in context.chassis.meters.items():
        address = None if told is None else told.endpoint(protocol, name)
        found.append(
            ListenerState(
                broker=context.node,
                name=name,
                protocol=protocol,
                address=None if address is None else str(address),
                connections=meter.open,
                accepted=meter.accepted,
                refused=meter.refused,
                requests=meter.requests,
                bytes_in=meter.bytes_in,
                bytes_out=meter.bytes_out,
            )
        )
    return ListenersAnswer(listeners=found)


def _series(context: Context, question: SeriesQuestion) -> SeriesAnswer:
    strange = [name for name in question.names if name not in NAMES]
    if strange:
        raise InvalidRequest(f"there is no series {strange[0]!r}; there are {', '.join(NAMES)}")
    ring = context.sampler.ring(question.step_ms)
    times, columns = ring.read(question.names, question.after)
    return SeriesAnswer(step_ms=ring.step_ms, at=times, values=columns)
