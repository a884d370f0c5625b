"""The topics that a run has from its beginning to its end, by what goes on in it."""

import random
from collections.abc import Mapping
from typing import Final

from kafkaesque.sim.clients.producer import PAUSE_MS
from kafkaesque.sim.clients.topic_load import TopicSpec
from kafkaesque.sim.options import SimOptions
from kafkaesque.sim.pipeline.load import INPUT_PAUSE_MS

#: A topic that retention makes shorter while throttled copies of it are made.
THROTTLED_TOPIC: Final = "throttled"
#: Its records have so much in them beside their values: what is sent of a copy at once is little
#: of what retention leaves, and retention takes as much within a burst.
PADDING_BYTES: Final = 500
#: What retention leaves of it, one of them for each seed.
RETENTIONS: Final[tuple[Mapping[str, str], ...]] = (
    {"retention.bytes": "40000"},
    {"retention.ms": "1500"},
    {"retention.bytes": "40000", "retention.ms": "4000"},
    {"retention.ms": "1500", "cleanup.policy": "compact,delete"},
)


def lasting_topics(seed: int, options: SimOptions) -> list[TopicSpec]:
    """Return them, in the order in which they are made."""
    configs = {"min.insync.replicas": str(options.min_insync)}
    if options.write_caching:
        configs["write.caching"] = "true"
    if options.is_encrypted:
        configs["encryption"] = "aes256-gcm"
    replicas, in_flight = min(options.replicas, options.brokers), options.in_flight
    specs = [
        TopicSpec(
            name="events",
            partitions=options.partitions,
            replicas=replicas,
            configs=configs,
            in_flight=in_flight,
            # Where a pipeline runs, it is what is to be seen.
            pause_ms=INPUT_PAUSE_MS if "exactly-once" in options.activities else PAUSE_MS,
        )
    ]
    if "deletions" in options.activities:
        small = {**configs, "retention.bytes": "20000"}
        specs += [
            TopicSpec(name="deleted", replicas=replicas, configs=configs, in_flight=in_flight),
            TopicSpec(name="expiring", replicas=replicas, configs=small, expires=True),
        ]
    if "compaction" in options.activities:
        keyed = {**configs, "cleanup.policy": "compact"}
        specs.append(TopicSpec(name="table", replicas=replicas, configs=keyed, compacts=True))
    if "throttles" in options.activities:
        retention = random.Random(f"{seed}/retention").choice(RETENTIONS)
        specs.append(
            TopicSpec(
                name=THROTTLED_TOPIC,
                replicas=replicas,
                producers=1,
                configs={**configs, **retention},
                expires=True,
                compacts="compact" in retention.get("cleanup.policy", ""),
                padding_bytes=PADDING_BYTES,
            )
        )
    return specs
