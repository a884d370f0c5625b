"""The API of one broker, put together."""

from collections.abc import Callable
from typing import Final

from kafkaesque.admin.api import (
    broker_part,
    client_session_part,
    connection_part,
    coordinator_action_part,
    finding_part,
    group_part,
    pipelines,
    queue_part,
    scan_part,
    topic_part,
    traces,
    transaction_part,
    why_client_part,
    why_part,
)
from kafkaesque.admin.api.access import AccessPages
from kafkaesque.admin.api.access_routes import access_routes
from kafkaesque.admin.api.calls import Route
from kafkaesque.admin.api.changes import ChangePages
from kafkaesque.admin.api.client_sessions import ClientSessionPages, client_session_routes
from kafkaesque.admin.api.cluster import ClusterPages
from kafkaesque.admin.api.connections import ConnectionPages, connection_routes
from kafkaesque.admin.api.context import CensusDesk, Context
from kafkaesque.admin.api.coordinator_actions import (
    CoordinatorActionPages,
    coordinator_action_routes,
)
from kafkaesque.admin.api.exchange_routes import exchange_routes
from kafkaesque.admin.api.exchanges import ExchangePages
from kafkaesque.admin.api.fan_out import FanOut, PartServer
from kafkaesque.admin.api.group_changes import GroupChangePages, group_change_routes
from kafkaesque.admin.api.groups import GroupPages
from kafkaesque.admin.api.keys import KeyPages
from kafkaesque.admin.api.pipelines import PipelinePages, pipeline_routes
from kafkaesque.admin.api.plots import PlotPages
from kafkaesque.admin.api.queue_changes import QueueChangePages
from kafkaesque.admin.api.queue_routes import queue_routes
from kafkaesque.admin.api.queues import QueuePages
from kafkaesque.admin.api.reading import MessagePages
from kafkaesque.admin.api.reassigning import ReassigningPages, reassigning_routes
from kafkaesque.admin.api.retained import RetainedPages, retained_routes
from kafkaesque.admin.api.router import Router
from kafkaesque.admin.api.routes import (
    cluster_routes,
    group_routes,
    key_routes,
    message_routes,
    plot_routes,
    session_routes,
    topic_routes,
    why_routes,
)
from kafkaesque.admin.api.rules import RulePages
from kafkaesque.admin.api.schemas import SchemaPages, schema_routes
from kafkaesque.admin.api.searching import SearchPages
from kafkaesque.admin.api.sessions import SessionPages
from kafkaesque.admin.api.streams import StreamPages, stream_routes
from kafkaesque.admin.api.topics import TopicPages
from kafkaesque.admin.api.traces import TracePages, trace_routes
from kafkaesque.admin.api.transformations import TransformationPages, transformation_routes
from kafkaesque.admin.api.trials import TrialPages, trial_routes
from kafkaesque.admin.api.why import WhyPages
from kafkaesque.admin.series import Sampler
from kafkaesque.admin.visitors import Visitors
from kafkaesque.broker.doors import Doors
from kafkaesque.chassis.chassis import Chassis

_PARTS: Final = (
    broker_part,
    connection_part,
    client_session_part,
    coordinator_action_part,
    topic_part,
    group_part,
    queue_part,
    transaction_part,
    scan_part,
    finding_part,
    why_part,
    traces,
    pipelines,
    why_client_part,
)


class Api:
    """Answers requests, and other brokers' questions for this one's parts of the answers."""

    def __init__(
        self,
        *,
        doors: Doors,
        chassis: Chassis,
        version: str,
        sampler: Sampler,
        visitors: Visitors,
        report: Callable[[str], None],
    ) -> None:
        """`report` is told of our own defects."""
        self.context: Final = Context(
            doors=doors,
            chassis=chassis,
            version=version,
            sampler=sampler,
            fan_out=FanOut(doors, report),
            census=CensusDesk(doors),
        )
        server = PartServer(doors)
        for part in _PARTS:
            part.register(self.context, server)
        self._plots = PlotPages(self.context)
        self.searches: Final = SearchPages(self.context)
        self.routes: Final = make_routes(self.context, self._plots, self.searches, visitors)
        self.router: Final = Router(self.routes, version, report)

    def stop(self) -> None:
        """Ask nobody any more."""
        self._plots.stop()


def make_routes(
    context: Context, plots: PlotPages, searches: SearchPages, visitors: Visitors
) -> list[Route]:
    """Return all operations, in the order of their documentation."""
    topics = TopicPages(context)
    changes = ChangePages(context, topics)
    queues = QueuePages(context)
    return [
        *cluster_routes(ClusterPages(context)),
        *topic_routes(topics, changes),
        *message_routes(MessagePages(context, topics), changes, searches),
        *queue_routes(queues, QueueChangePages(context, queues)),
        *exchange_routes(ExchangePages(context)),
        *transformation_routes(TransformationPages(context)),
        *trial_routes(TrialPages(context)),
        *key_routes(KeyPages(context, topics, queues)),
        *group_routes(GroupPages(context)),
        *group_change_routes(GroupChangePages(context)),
        *coordinator_action_routes(CoordinatorActionPages(context)),
        *reassigning_routes(ReassigningPages(context, topics)),
        *connection_routes(ConnectionPages(context)),
        *client_session_routes(ClientSessionPages(context)),
        *retained_routes(RetainedPages(context)),
        *stream_routes(StreamPages(context)),
        *trace_routes(TracePages(context)),
        *pipeline_routes(PipelinePages(context)),
        *why_routes(WhyPages(context)),
        *plot_routes(plots),
        *schema_routes(SchemaPages(context)),
        *access_routes(AccessPages(context), RulePages(context)),
        *session_routes(SessionPages(context, visitors)),
    ]
