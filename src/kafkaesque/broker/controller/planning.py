"""What the controller's decisions depend on beside its state and the command: this very moment."""

from collections.abc import Callable

from kafkaesque.access.decisions import Judge
from kafkaesque.access.state import AccessState
from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.controller.voters import ControllerVoters
from kafkaesque.broker.metadata.change_rights import check_rights
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.metadata.plan import Plan, PlanInputs
from kafkaesque.broker.metadata.planner import plan
from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.requests.client_command import ClientCommand
from kafkaesque.broker.requests.commands import ControllerCommand
from kafkaesque.env import Env
from kafkaesque.model.ids import NodeId, Offset, TopicId


class Planning:
    """Plans commands with what this broker sees: who is alive, who leads, the time, and chance."""

    def __init__(
        self,
        *,
        env: Env,
        config: BrokerConfig,
        incarnation: int,
        options: LiveOptions,
        peers: PeerNetwork,
        leaders: LeadersTable,
        voters: ControllerVoters,
        new_topic_id: Callable[[], TopicId],
        applied_offset: Callable[[], Offset],
    ) -> None:
        self._env = env
        self._config = config
        self._incarnation = incarnation
        self._options = options
        self._peers = peers
        self._leaders = leaders
        self._voters = voters
        self._new_topic_id = new_topic_id
        self._applied_offset = applied_offset
        self._judge = Judge(AccessState(), config.super_users)

    def plan(self, state: ClusterState, command: ControllerCommand) -> Plan:
        """Return records and an answer.

        Raises:
            RequestRefused: the command cannot be carried out, or its client may not have it.
        """
        if isinstance(command, ClientCommand) and command.on_behalf_of is not None:
            check_rights(state, command, self._judge_of(state.access))
        inputs = PlanInputs(
            alive=[node for node in state.brokers if self._peers.is_alive(node)],
            expected_brokers=max(len(state.brokers), len(self._voters.current())),
            broker_option=self._options.get,
            start_option=self._config.option,
            new_topic_id=self._new_topic_id,
            draw=self._env.dice.below(1 << 16),
            wall_ms=self._env.clock.wall_ms(),
            applied_offset=self._applied_offset(),
            controllers=self._voters.facts(),
            leader=self._leaders.leader,
            incarnation=self._incarnation_of,
        )
        return plan(state, command, inputs)

    def _judge_of(self, access: AccessState) -> Judge:
        if self._judge.rules_epoch != access.rules_epoch:
            self._judge = self._judge.after(access)
        return self._judge

    def _incarnation_of(self, node: NodeId) -> int | None:
        """Return which process of a broker is alive, as far as this one hears of it."""
        if node == self._config.node:
            return self._incarnation
        return self._peers.incarnation(node) if self._peers.is_alive(node) else None
