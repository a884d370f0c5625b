"""All operations of the API, in the order of its documentation."""

from kafkaesque.admin.api.calls import Route
from kafkaesque.admin.api.changes import (
    Change,
    ChangePages,
    DryRun,
    NewMessage,
    NewTopic,
    OptionChanges,
    Published,
)
from kafkaesque.admin.api.cluster import ClusterPages
from kafkaesque.admin.api.groups import GroupPages
from kafkaesque.admin.api.keys import KeyPages
from kafkaesque.admin.api.paging import ListQuery
from kafkaesque.admin.api.plots import LiveEvent, LiveQuery, PlotPages, SeriesQuery, SeriesView
from kafkaesque.admin.api.queue_values import QueueDryRun
from kafkaesque.admin.api.reading import MessagePage, MessagePages, MessagesQuery
from kafkaesque.admin.api.searching import LINES, SearchLine, SearchPages, SearchRequest
from kafkaesque.admin.api.sessions import (
    Done,
    LogIn,
    SecondFactor,
    SessionPages,
    SessionView,
)
from kafkaesque.admin.api.topics import PartitionsQuery, TopicPages, TopicsQuery
from kafkaesque.admin.api.values import (
    BrokerList,
    BrokerView,
    ClusterView,
    ControllersView,
    DoctorView,
    GroupList,
    GroupView,
    KeyList,
    TopicGroups,
    TopicList,
    TopicOptions,
    TopicView,
    TransactionList,
)
from kafkaesque.admin.api.why import (
    WhyGroupQuery,
    WhyMessageQuery,
    WhyPages,
    WhyRecordQuery,
    WhyRouteQuery,
)
from kafkaesque.admin.api.why_links import WhyView


def cluster_routes(pages: ClusterPages) -> list[Route]:
    """Return the operations on a cluster as a whole."""
    return [
        Route(
            method="GET",
            path="/cluster",
            name="showCluster",
            summary="The cluster in few numbers",
            handle=pages.show_cluster,
            result=ClusterView,
        ),
        Route(
            method="GET",
            path="/brokers",
            name="listBrokers",
            summary="Registered brokers, up or not",
            handle=pages.list_brokers,
            query=ListQuery,
            result=BrokerList,
        ),
        Route(
            method="GET",
            path="/brokers/{broker}",
            name="showBroker",
            summary="One broker",
            handle=pages.show_broker,
            result=BrokerView,
        ),
        Route(
            method="GET",
            path="/controllers",
            name="showControllers",
            summary="Who votes on metadata, and who leads",
            handle=pages.show_controllers,
            result=ControllersView,
        ),
        Route(
            method="GET",
            path="/doctor",
            name="showFindings",
            summary="What is wrong, as far as brokers know it themselves",
            handle=pages.show_findings,
            result=DoctorView,
        ),
    ]


def topic_routes(pages: TopicPages, changes: ChangePages) -> list[Route]:
    """Return the operations on topics and their options."""
    return [
        Route(
            method="GET",
            path="/topics",
            name="listTopics",
            summary="Topics, with their sizes",
            handle=pages.list_topics,
            query=TopicsQuery,
            result=TopicList,
        ),
        Route(
            method="POST",
            path="/topics",
            name="createTopic",
            summary="Create a topic",
            handle=changes.create_topic,
            query=DryRun,
            body=NewTopic,
            result=Change,
            status=201,
        ),
        Route(
            method="GET",
            path="/topics/{topic}",
            name="showTopic",
            summary="A topic and its partitions",
            handle=pages.show_topic,
            query=PartitionsQuery,
            result=TopicView,
        ),
        Route(
            method="DELETE",
            path="/topics/{topic}",
            name="deleteTopic",
            summary="Delete a topic with all that it holds",
            handle=changes.delete_topic,
            query=DryRun,
            result=Change,
        ),
        Route(
            method="GET",
            path="/topics/{topic}/options",
            name="showOptions",
            summary="All options of a topic",
            handle=pages.show_options,
            result=TopicOptions,
        ),
        Route(
            method="PATCH",
            path="/topics/{topic}/options",
            name="changeOptions",
            summary="Change options of a topic; If-Match takes the ETag of those that were seen",
            handle=changes.change_options,
            query=DryRun,
            body=OptionChanges,
            result=Change,
        ),
        Route(
            method="GET",
            path="/topics/{topic}/groups",
            name="listTopicGroups",
            summary="Groups that consume a topic",
            handle=pages.list_groups,
            query=ListQuery,
            result=TopicGroups,
        ),
    ]


def why_routes(pages: WhyPages) -> list[Route]:
    """Return the operations that say why something waits."""
    return [
        Route(
            method="GET",
            path="/why/topics/{topic}/partitions/{partition}",
            name="whyRecord",
            summary="Why a record is not there, or a group has not read it",
            handle=pages.why_record,
            query=WhyRecordQuery,
            result=WhyView,
        ),
        Route(
            method="GET",
            path="/why/groups/{group}",
            name="whyGroup",
            summary="Why a group has not read everything",
            handle=pages.why_group,
            query=WhyGroupQuery,
            result=WhyView,
        ),
        Route(
            method="GET",
            path="/why/producers/{producer}",
            name="whyProducer",
            summary="What a transaction waits for, by transactional id or producer id",
            handle=pages.why_producer,
            result=WhyView,
        ),
        Route(
            method="GET",
            path="/why/queues/{queue}",
            name="whyMessage",
            summary="Where a message of a queue is, and why",
            handle=pages.why_message,
            query=WhyMessageQuery,
            result=WhyView,
        ),
        Route(
            method="GET",
            path="/why/exchanges/{exchange}",
            name="whyRouted",
            summary="Where a message goes that is published to an exchange, or why nowhere",
            handle=pages.why_routed,
            query=WhyRouteQuery,
            result=WhyView,
        ),
    ]


def key_routes(pages: KeyPages) -> list[Route]:
    """Return the operations on the keys of encrypted topics and queues."""
    return [
        Route(
            method="GET",
            path="/keys",
            name="listKeys",
            summary="Versions of the keys of encrypted topics and queues",
            handle=pages.list_keys,
            result=KeyList,
        ),
        Route(
            method="POST",
            path="/keys/rewrap",
            name="rewrapKeys",
            summary="Wrap all keys by the key keeper's newest key",
            handle=pages.rewrap_keys,
            query=DryRun,
            result=Change,
        ),
        Route(
            method="POST",
            path="/topics/{topic}/keys",
            name="rotateKey",
            summary="Seal what is produced from now on with a new version of a topic's key",
            handle=pages.rotate_key,
            query=DryRun,
            result=Change,
        ),
        Route(
            method="DELETE",
            path="/topics/{topic}/keys/{version}",
            name="shredKey",
            summary="Remove a version of a topic's key: what it has sealed is unreadable for good",
            handle=pages.shred_key,
            query=DryRun,
            result=Change,
        ),
        Route(
            method="POST",
            path="/queues/{queue}/keys",
            name="rotateQueueKey",
            summary="Seal what is put from now on with a new version of a queue's key",
            handle=pages.rotate_queue_key,
            query=QueueDryRun,
            result=Change,
        ),
        Route(
            method="DELETE",
            path="/queues/{queue}/keys/{version}",
            name="shredQueueKey",
            summary="Remove a version of a queue's key: what it has sealed is unreadable for good",
            handle=pages.shred_queue_key,
            query=QueueDryRun,
            result=Change,
        ),
    ]


def message_routes(pages: MessagePages, changes: ChangePages, searches: SearchPages) -> list[Route]:
    """Return the operations on messages."""
    return [
        Route(
            method="GET",
            path="/topics/{topic}/messages",
            name="listMessages",
            summary="A page of messages, by offset, by time, or the newest",
            handle=pages.list_messages,
            query=MessagesQuery,
            result=MessagePage,
        ),
        Route(
            method="POST",
            path="/topics/{topic}/messages",
            name="publish",
            summary="Publish a message",
            handle=changes.publish,
            query=DryRun,
            body=NewMessage,
            result=Published,
            status=201,
        ),
        Route(
            method="POST",
            path="/search",
            name="search",
            summary="Search messages; lines that also say how far it has looked",
            handle=searches.search,
            body=SearchRequest,
            content_type=LINES,
            item=SearchLine,
            is_safe=True,
        ),
    ]


def group_routes(pages: GroupPages) -> list[Route]:
    """Return the operations on who is at work."""
    return [
        Route(
            method="GET",
            path="/groups",
            name="listGroups",
            summary="Consumer groups, with their lag",
            handle=pages.list_groups,
            query=ListQuery,
            result=GroupList,
        ),
        Route(
            method="GET",
            path="/groups/{group}",
            name="showGroup",
            summary="A group: members, offsets, lag",
            handle=pages.show_group,
            result=GroupView,
        ),
        Route(
            method="GET",
            path="/transactions",
            name="listTransactions",
            summary="Transactional ids and their transactions",
            handle=pages.list_transactions,
            query=ListQuery,
            result=TransactionList,
        ),
    ]


def plot_routes(pages: PlotPages) -> list[Route]:
    """Return the operations on numbers over time."""
    return [
        Route(
            method="GET",
            path="/series",
            name="showSeries",
            summary="The newest samples of all brokers",
            handle=pages.show_series,
            query=SeriesQuery,
            result=SeriesView,
        ),
        Route(
            method="GET",
            path="/live",
            name="listen",
            summary="Samples as they come, as server-sent events",
            handle=pages.listen,
            query=LiveQuery,
            content_type="text/event-stream",
            item=LiveEvent,
        ),
    ]


def session_routes(pages: SessionPages) -> list[Route]:
    """Return the operations on who has logged in, and how."""
    return [
        Route(
            method="POST",
            path="/session",
            name="logIn",
            summary="Log in: begin a session of 12 hours",
            handle=pages.log_in,
            body=LogIn,
            result=SessionView,
            status=201,
        ),
        Route(
            method="GET",
            path="/session",
            name="showSession",
            summary="Who has logged in; 401 where nobody has and somebody must",
            handle=pages.show_session,
            result=SessionView,
        ),
        Route(
            method="DELETE",
            path="/session",
            name="logOut",
            summary="Log out: end the session of the request's token",
            handle=pages.log_out,
            result=Done,
        ),
        Route(
            method="POST",
            path="/users/{user}/second-factor",
            name="addSecondFactor",
            summary="Give a person a second factor (TOTP), and recovery codes",
            handle=pages.add_factor,
            result=SecondFactor,
            status=201,
        ),
        Route(
            method="DELETE",
            path="/users/{user}/sessions",
            name="endSessions",
            summary="End all sessions of a person",
            handle=pages.end_sessions,
            result=Done,
        ),
        Route(
            method="DELETE",
            path="/users/{user}/second-factor",
            name="removeSecondFactor",
            summary="Take a person's second factor away",
            handle=pages.remove_factor,
            result=Done,
        ),
    ]
