"""The operations on queues."""

from kafkaesque.admin.api.calls import Route
from kafkaesque.admin.api.changes import Change, OptionChanges
from kafkaesque.admin.api.queue_changes import QueueChangePages
from kafkaesque.admin.api.queue_values import (
    NewQueue,
    QueuedMessages,
    QueueDryRun,
    QueueList,
    QueueMessagesQuery,
    QueueOptions,
    QueueQuery,
    QueuesQuery,
    QueueView,
    Redrive,
)
from kafkaesque.admin.api.queues import QueuePages


def queue_routes(pages: QueuePages, changes: QueueChangePages) -> list[Route]:
    """Return the operations on queues, their options and their messages."""
    return [*_queue_routes(pages, changes), *_message_routes(pages, changes)]


def _queue_routes(pages: QueuePages, changes: QueueChangePages) -> list[Route]:
    return [
        Route(
            method="GET",
            path="/queues",
            name="listQueues",
            summary="Queues, with how many messages they have, by where these are",
            handle=pages.list_queues,
            query=QueuesQuery,
            result=QueueList,
        ),
        Route(
            method="POST",
            path="/queues",
            name="createQueue",
            summary="Create a queue; one that is there with the same options is as good",
            handle=changes.create_queue,
            query=QueueDryRun,
            body=NewQueue,
            result=Change,
            status=201,
        ),
        Route(
            method="GET",
            path="/queues/{queue}",
            name="showQueue",
            summary="A queue as its leaders know it, and what holds its log",
            handle=pages.show_queue,
            query=QueueQuery,
            result=QueueView,
        ),
        Route(
            method="DELETE",
            path="/queues/{queue}",
            name="deleteQueue",
            summary="Delete a queue with all that it holds",
            handle=changes.delete_queue,
            query=QueueDryRun,
            result=Change,
        ),
        Route(
            method="GET",
            path="/queues/{queue}/options",
            name="showQueueOptions",
            summary="All options of a queue",
            handle=pages.show_options,
            query=QueueQuery,
            result=QueueOptions,
        ),
        Route(
            method="PATCH",
            path="/queues/{queue}/options",
            name="changeQueueOptions",
            summary="Change options of a queue; If-Match takes the ETag of those that were seen",
            handle=changes.change_options,
            query=QueueDryRun,
            body=OptionChanges,
            result=Change,
        ),
    ]


def _message_routes(pages: QueuePages, changes: QueueChangePages) -> list[Route]:
    return [
        Route(
            method="GET",
            path="/queues/{queue}/messages",
            name="browseQueue",
            summary="Messages of a queue, oldest first, with where each is; none is taken",
            handle=pages.list_messages,
            query=QueueMessagesQuery,
            result=QueuedMessages,
        ),
        Route(
            method="POST",
            path="/queues/{queue}/purge",
            name="purgeQueue",
            summary="Remove all messages that wait; those that consumers have stay",
            handle=changes.purge_queue,
            query=QueueDryRun,
            result=Change,
        ),
        Route(
            method="POST",
            path="/queues/{queue}/redrive",
            name="redriveQueue",
            summary="Move messages to another queue, or let what was given up be ready again",
            handle=changes.redrive_queue,
            query=QueueDryRun,
            body=Redrive,
            result=Change,
        ),
    ]
