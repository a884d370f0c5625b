"""Who moves replicas and controllers about in a run, and between which brokers."""

from collections.abc import Sequence
from typing import Final

from kafkaesque.env import Env
from kafkaesque.sim.clients.controller_changer import ControllerChanger
from kafkaesque.sim.clients.copy_throttle import CopyThrottle
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.replica_shuffler import ReplicaShuffler
from kafkaesque.sim.clients.topic_load import TopicSpec
from kafkaesque.sim.cluster import SimCluster
from kafkaesque.sim.nemesis import DAMAGING, LOSING
from kafkaesque.sim.options import SimOptions, name_brokers
from kafkaesque.sim.topics import THROTTLED_TOPIC

#: Topics of the brokers themselves, with their partitions.
_INTERNAL: Final = (("__consumer_offsets", 2), ("__transaction_state", 2))
#: A topic whose copies are throttled moves so many times as often as another one.
_THROTTLED_TIMES: Final = 3


def fewest_copies(options: SimOptions) -> int:
    """Return how many copies outlast what one machine may suffer."""
    loses = bool(set(options.kinds) & {*LOSING, *DAMAGING})
    return min(3 if loses else 1, options.brokers)


def lasting_brokers(options: SimOptions, *, with_damaged: bool = False) -> list[int]:
    """Return all but the one that is damaged.

    `with_damaged` also that one, if it is not taken away in the end: then it gets its copies.
    """
    left_out = None if with_damaged and not options.loses_damaged else options.damaged
    machines = zip(options.broker_ids, name_brokers(options.brokers), strict=True)
    return [node for node, name in machines if name != left_out]


def start_moves(
    env: Env, cluster: SimCluster, specs: Sequence[TopicSpec], sound: Sequence[TopicSpec] = ()
) -> ReplicaShuffler | None:
    """Move replicas of everything that is not created and deleted again, if there is room.

    Those in `sound` are kept off the machine that is damaged: they move where nothing goes there.
    """
    options = cluster.options
    fewest = fewest_copies(options)
    if options.damaged is not None and options.brokers <= fewest:
        return None
    brokers = lasting_brokers(options, with_damaged=True)
    if len(brokers) < fewest:
        return None
    topics = [(spec.name, spec.partitions) for spec in specs]
    topics += [each for each in topics if each[0] == THROTTLED_TOPIC] * (_THROTTLED_TIMES - 1)
    topics += _INTERNAL
    if set(brokers) <= set(lasting_brokers(options)):
        topics += [(spec.name, spec.partitions) for spec in sound]
    client = KafkaClient(env, cluster.addresses, "events")
    return ReplicaShuffler(client, topics, brokers=brokers, fewest=fewest)


def start_throttles(env: Env, cluster: SimCluster) -> CopyThrottle:
    """Limit the rates of copies, and lift the limits."""
    client = KafkaClient(env, cluster.addresses, "events")
    return CopyThrottle(client, THROTTLED_TOPIC, cluster.options.broker_ids)


def start_changes(env: Env, cluster: SimCluster) -> ControllerChanger:
    """Change the controllers; with at least three, one more may be lost."""
    options = cluster.options
    founders = options.broker_ids[: options.controllers]
    client = KafkaClient(env, cluster.addresses, "events")
    return ControllerChanger(
        client,
        founders=founders,
        brokers=lasting_brokers(options),
        fewest=fewest_copies(options),
    )
