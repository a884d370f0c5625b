"""`/metrics`: reads what a broker has counted, when somebody asks.

Work that grows with the number of partitions is spread over turns of the loop (`census`), and one
request at a time does it: who asks meanwhile gets the same answer.
"""

from collections.abc import Callable
from typing import Final

from kafkaesque.admin import metric_table as table
from kafkaesque.admin.census import Census, take_census
from kafkaesque.admin.exposition import CONTENT_TYPE, Sheet
from kafkaesque.admin.health import reasons_against
from kafkaesque.admin.http import Answer, Request, Respond, text_answer
from kafkaesque.admin.process_facts import ProcessFacts
from kafkaesque.admin.queue_metrics import write_queues, write_single_queues
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.doors.queues import LedQueue
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.model.errors import DiskFailed
from kafkaesque.model.histogram import Histogram
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.storage.statistics import StorageStatistics


class MetricsPage:
    """See the module."""

    def __init__(
        self,
        doors: Doors,
        chassis: Chassis,
        version: str,
        loop_lag: Histogram,
        process_facts: Callable[[], ProcessFacts],
    ) -> None:
        self._doors: Final = doors
        self._chassis: Final = chassis
        self._version: Final = version
        self._loop_lag: Final = loop_lag
        self._process_facts: Final = process_facts
        self._waiting: list[tuple[Request, Respond]] = []

    def answer(self, request: Request, respond: Respond) -> None:
        """See `Handler`."""
        topics = request.query.get("topic", ())
        if len(topics) > table.TOPICS_MAX:
            respond(text_answer(400, f"at most {table.TOPICS_MAX} topics may be asked for at once"))
            return
        if len(request.query.get("queue", ())) > table.QUEUES_ASKED_MAX:
            most = table.QUEUES_ASKED_MAX
            respond(text_answer(400, f"at most {most} queues may be asked for at once"))
            return
        self._waiting.append((request, respond))
        if len(self._waiting) == 1:
            take_census(self._doors, self._on_counted)

    def _on_counted(self, census: Census) -> None:
        waiting, self._waiting = self._waiting, []
        for request, respond in waiting:
            sheet = Sheet()
            self._write_broker(sheet)
            self._write_clients(sheet)
            self._write_listeners(sheet)
            self._write_access(sheet)
            self._write_replication(sheet, census)
            self._write_storage(sheet, census)
            self._write_groups(sheet, census)
            write_queues(sheet, self._doors, census.queues)
            self._write_live(sheet)
            self._write_traces(sheet)
            asked = self._asked_queues(request)
            write_single_queues(sheet, self._doors, [*census.queues.oldest, *asked])
            self._write_process(sheet)
            for topic in request.query.get("topic", ()):
                self._write_topic(sheet, topic)
            respond(Answer(status=200, body=sheet.write(), content_type=CONTENT_TYPE))

    def _asked_queues(self, request: Request) -> list[LedQueue]:
        """Return the parts led here of queues that were asked for, all of one virtual host."""
        vhost = next(iter(request.query.get("vhost", ())), DEFAULT_VHOST)
        return [
            found
            for name in request.query.get("queue", ())
            for found in self._doors.queues.led_of(QueueName(vhost, name))
        ]

    def _write_live(self, sheet: Sheet) -> None:
        tally = self._doors.live.tally()
        sheet.add(table.LIVE_SUBSCRIPTIONS, tally.subscriptions)
        sheet.add(table.LIVE_PUBLISHED, tally.published)
        sheet.add(table.LIVE_GIVEN, tally.given)
        sheet.add(table.LIVE_DROPPED, tally.dropped)
        for protocol, count in sorted(self._doors.activity.client_drops.items()):
            sheet.add(table.CLIENT_DROPS, count, protocol)

    def _write_traces(self, sheet: Sheet) -> None:
        tracer = self._doors.activity.tracer
        if tracer is not None:
            sheet.add(table.TRACE_SPANS, tracer.made)
            sheet.add(table.TRACE_SPANS_LOST, tracer.lost)
            sheet.add(table.TRACE_BATCHES_SKIPPED, tracer.skipped)

    def _write_broker(self, sheet: Sheet) -> None:
        doors = self._doors
        config = doors.configuration.file
        sheet.add(
            table.BROKER_INFO,
            1,
            doors.cluster.node,
            config.cluster_id,
            config.rack or "",
            self._version,
        )
        sheet.add(table.BROKER_TIME, doors.clock.wall_ms() / 1000)
        sheet.add(table.BROKER_READY, not reasons_against(doors))
        sheet.add(table.BROKER_FAILED, doors.condition.life.failure is not None)
        for node in doors.cluster.state.brokers:
            if node != doors.cluster.node:
                sheet.add(table.PEER_ALIVE, doors.cluster.is_alive(node), node)
        controller = doors.cluster.controller()
        sheet.add(table.CONTROLLER, -1 if controller is None else controller)
        sheet.add(table.METADATA_OFFSET, doors.condition.metadata.applied_offset)

    def _write_clients(self, sheet: Sheet) -> None:
        activity = self._doors.activity
        sheet.add(table.MESSAGES_IN, activity.messages_in)
        sheet.add(table.BYTES_IN, activity.bytes_in)
        sheet.add(table.BYTES_OUT, activity.bytes_out)
        for api_key, latency in sorted(activity.requests.items()):
            sheet.add(table.REQUEST_SECONDS, latency, ApiKey(api_key).name)
        for metric, counts in (
            (table.PRODUCE_ERRORS, activity.produce_errors),
            (table.FETCH_ERRORS, activity.fetch_errors),
        ):
            for code, count in sorted(counts.items()):
                sheet.add(metric, count, ErrorCode(code).name)
        meters = self._chassis.meters
        kafka = [meter for (protocol, _), meter in meters.items() if protocol == "kafka"]
        sheet.add(table.CONNECTIONS, sum(each.open for each in kafka))
        sheet.add(table.CONNECTIONS_ACCEPTED, sum(each.accepted for each in kafka))
        sheet.add(table.CONNECTIONS_REFUSED, sum(each.refused for each in kafka))
        sheet.add(table.THROTTLED, self._chassis.quotas.throttled_requests)
        sheet.add(table.THROTTLE_SECONDS, self._chassis.quotas.throttle_ms / 1000)

    def _write_listeners(self, sheet: Sheet) -> None:
        for labels, meter in self._chassis.meters.items():
            sheet.add(table.LISTENER_CONNECTIONS, meter.open, *labels)
            sheet.add(table.LISTENER_ACCEPTED, meter.accepted, *labels)
            sheet.add(table.LISTENER_REFUSED, meter.refused, *labels)
            sheet.add(table.LISTENER_LOGGED_IN, meter.logged_in, *labels)
            sheet.add(table.LISTENER_LOGIN_FAILURES, meter.login_failures, *labels)
            sheet.add(table.LISTENER_WITHOUT_LOGIN, meter.without_login, *labels)
            sheet.add(table.LISTENER_REQUESTS, meter.requests, *labels)
            sheet.add(table.LISTENER_BYTES_IN, meter.bytes_in, *labels)
            sheet.add(table.LISTENER_BYTES_OUT, meter.bytes_out, *labels)
        trail = self._doors.access.audit.trail
        for kind in sorted(trail.kinds):
            sheet.add(table.AUDIT_EVENTS, trail.noted.get(kind, 0), kind.value)
        sheet.add(table.AUDIT_DROPPED, trail.dropped)
        sheet.add(table.AUDIT_WAITING, len(trail))

    def _write_access(self, sheet: Sheet) -> None:
        keys, access, logins = self._doors.keys, self._doors.access, self._chassis.logins
        if logins is not None:
            for mechanism, count in sorted(logins.open_by_mechanism().items()):
                sheet.add(table.LOG_INS_OPEN, count, mechanism)
        sheet.add(table.SESSIONS, access.session_count)
        if access.rules_age_ms is not None:
            sheet.add(table.RULES_AGE, access.rules_age_ms / 1000)
        sheet.add(table.RULES_STALE, access.is_stale)
        sheet.add(table.KEY_KEEPER, keys.keeper is not None)
        sheet.add(table.KEYS_MISSING, keys.missing_count)

    def _write_replication(self, sheet: Sheet, census: Census) -> None:
        activity, recovery = self._doors.activity, self._doors.condition.partitions.recovery_state()
        sheet.add(table.LEADERS, census.led)
        sheet.add(table.REPLICAS, census.replicas)
        sheet.add(table.UNDER_REPLICATED, census.under_replicated)
        sheet.add(table.UNDER_MIN_ISR, census.under_min_isr)
        sheet.add(table.LEADERLESS, census.leaderless)
        formations = self._doors.cluster.state.recoveries.values()
        sheet.add(table.FORMING, sum(each.is_open for each in formations))
        sheet.add(table.UNCLEAN, sum(each.unclean is not None for each in formations))
        sheet.add(table.GIVEN_UP, sum(each.given_up for each in formations))
        sheet.add(table.OFFLINE_REPLICAS, len(recovery.damaged))
        sheet.add(table.DAMAGED_REPLICAS, len(self._doors.condition.scrubber.damaged))
        sheet.add(table.RECOVERING_REPLICAS, len(recovery.unopened) + len(recovery.copied))
        sheet.add(table.IN_SYNC_SHRINKS, activity.in_sync_shrinks)
        sheet.add(table.IN_SYNC_EXPANDS, activity.in_sync_expands)
        sheet.add(table.ELECTIONS_BEGUN, activity.elections_begun)
        sheet.add(table.ELECTIONS_WON, activity.elections_won)
        sheet.add(table.LEADERSHIPS_LOST, activity.leaderships_lost)
        sheet.add(table.TRUNCATIONS, activity.truncations)
        sheet.add(table.COMMIT_SECONDS, activity.commit_latency)

    def _write_storage(self, sheet: Sheet, census: Census) -> None:
        doors = self._doors
        statistics = doors.condition.store.statistics
        sheet.add(table.SYNC_SECONDS, statistics.sync_latency)
        sheet.add(table.SYNC_RECORDS, _sync_records(statistics))
        sheet.add(table.WAL_BYTES, statistics.wal_bytes)
        sheet.add(table.CHECKPOINTS, statistics.checkpoints)
        sheet.add(table.CHECKPOINTS_LATE, statistics.checkpoints_late)
        sheet.add(table.COLD_READS, statistics.cold_reads)
        sheet.add(table.KEY_INDEXES_BUILT, statistics.key_indexes_built)
        sheet.add(table.RECORDS_PASSED_OVER, statistics.records_passed_over)
        sheet.add(table.LOG_BYTES, census.log_bytes)
        try:
            free_bytes, total_bytes = (
                doors.condition.disk.free_bytes(),
                doors.condition.disk.total_bytes(),
            )
        except DiskFailed:
            pass  # What is not known is left out.
        else:
            sheet.add(table.DISK_FREE, free_bytes)
            sheet.add(table.DISK_TOTAL, total_bytes)
        sheet.add(table.APPENDS_REFUSED, doors.condition.store.refusal is not None)
        sheet.add(table.COMPACTIONS, doors.condition.cleaner.count)
        sheet.add(table.COMPACTION_RUNNING, doors.condition.cleaner.is_running)
        sheet.add(table.SCRUBBED_BYTES, doors.condition.scrubber.bytes_read)
        sheet.add(table.SCRUB_PASSES, doors.condition.scrubber.passes)
        sheet.add(table.RECOVERY_SECONDS, statistics.recovery_ms / 1000)

    def _write_groups(self, sheet: Sheet, census: Census) -> None:
        sheet.add(table.GROUPS, census.groups)
        for lag, group in census.lags:
            sheet.add(table.GROUP_LAG, lag, group)
        sheet.add(table.GROUP_LAG_UNKNOWN, census.partitions_elsewhere)
        wall_ms = self._doors.clock.wall_ms()
        hosts = [each for each in self._doors.transactions.coordinators.all() if each.is_loaded]
        starts_ms = [start for host in hosts for start in host.table.open_since_ms()]
        sheet.add(table.TRANSACTIONAL_IDS, sum(each.table.transactional_id_count for each in hosts))
        sheet.add(table.TRANSACTIONS_OPEN, len(starts_ms))
        oldest_ms = wall_ms - min(starts_ms, default=wall_ms)
        sheet.add(table.TRANSACTION_OLDEST, max(0, oldest_ms) / 1000)

    def _write_process(self, sheet: Sheet) -> None:
        facts = self._process_facts()
        sheet.add(table.LOOP_LAG, self._loop_lag)
        if facts.resident_bytes is not None:
            sheet.add(table.RESIDENT_BYTES, facts.resident_bytes)
        sheet.add(table.CPU_SECONDS, facts.cpu_seconds)
        if facts.open_files is not None:
            sheet.add(table.OPEN_FILES, facts.open_files)
        sheet.add(table.OPEN_FILES_MAX, facts.open_files_max)
        if facts.start_seconds is not None:
            sheet.add(table.START_SECONDS, facts.start_seconds)

    def _write_topic(self, sheet: Sheet, topic: str) -> None:
        """Write the partitions of a topic that are here."""
        state = self._doors.cluster.state.topics.get(topic)
        for each in () if state is None else state.partitions[: table.PARTITIONS_MAX]:
            partition = self._doors.condition.partitions.get(each.group)
            if partition is None or partition.replica is None:
                continue
            labels = (topic, each.partition)
            sheet.add(table.PARTITION_START, partition.log_start_offset, *labels)
            sheet.add(table.PARTITION_END, partition.high_watermark, *labels)
            sheet.add(table.PARTITION_BYTES, partition.log.size_bytes, *labels)
            sheet.add(table.PARTITION_EPOCH, partition.leader_epoch, *labels)
            if partition.is_leader:
                in_sync = len(partition.replica.in_sync())
                sheet.add(table.PARTITION_IN_SYNC, in_sync, *labels)


def _sync_records(statistics: StorageStatistics) -> Histogram:
    """Return the sizes of commits, which storage counts by powers of two."""
    counts = statistics.commit_sizes
    found = Histogram([2 ** (place + 1) - 1 for place in range(len(counts) - 1)])
    found.counts[:] = counts
    found.sum = statistics.wal_records
    return found
