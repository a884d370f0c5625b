"""Streams of AMQP: queues in name, whose messages are those of a topic of one partition."""

from __future__ import annotations

import msgspec

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.broker.options.queue_arguments import read_stream_arguments
from kafkaesque.broker.options.queues import DECLARATION, STREAM_TOPIC
from kafkaesque.broker.requests.commands import CreateTopic, DeleteTopic
from kafkaesque.broker.requests.queue_commands import CreateQueue, DeleteQueue
from kafkaesque.chassis.amqp.arguments import Declaration, declaration_of


def stream_topic(vhost: str, name: str) -> str:
    """Return what the topic of a stream is called."""
    return name if vhost == DEFAULT_VHOST else f"{vhost}.{name}"


def stream_topic_command(command: CreateQueue, said: Declaration, topic: str) -> CreateTopic:
    """Return the command that makes the topic of a stream.

    Raises:
        InvalidConfig: an argument of the declaration is none of a stream's.
    """
    return CreateTopic(
        name=topic,
        partition_count=1,
        replication_factor=command.replication_factor,
        configs=read_stream_arguments(said.arguments),
    )


def as_stream(command: CreateQueue, said: Declaration, topic: str, *, is_new: bool) -> CreateQueue:
    """Return the command that makes a stream of its topic, which goes with it if it is new."""
    declared = msgspec.structs.replace(said, made_topic=is_new)
    options = {
        **command.options,
        STREAM_TOPIC: topic,
        DECLARATION: msgspec.json.encode(declared).decode(),
    }
    return msgspec.structs.replace(command, options=options)


def deletion_of(queue: QueueState) -> DeleteQueue | DeleteTopic:
    """Return the command that ends a queue: of a stream, its topic, if that was made for it."""
    said = declaration_of(queue)
    if said is not None and said.made_topic:
        return DeleteTopic(name=queue.options[STREAM_TOPIC])
    return DeleteQueue(vhost=queue.queue.vhost, name=queue.queue.name)
