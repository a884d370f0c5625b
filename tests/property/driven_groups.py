"""What the state machines of groups have in common: clients that act or crash, and slow writes."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from kafkaesque.groups.config import GroupConfig
from tests.unit.groups.desk import Desk


class DrivenGroup(RuleBasedStateMachine):
    """Clients and a desk; `poll` lets a client do what its library would do next."""

    def __init__(self, config: GroupConfig) -> None:
        super().__init__()
        self.desk = Desk(config)
        self.clients: list[Any] = []

    def poll(self, client: Any) -> None:
        raise NotImplementedError

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def act(self, data: st.DataObject) -> None:
        self.poll(data.draw(st.sampled_from(self.clients)))

    @rule()
    def act_all(self) -> None:
        for client in list(self.clients):
            self.poll(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        self.clients.remove(data.draw(st.sampled_from(self.clients)))

    @rule(holds=st.booleans())
    def hold_writes(self, holds: bool) -> None:
        self.desk.holds_writes = holds
        if not holds:
            self.desk.commit_held()

    @precondition(lambda self: self.desk.held)
    @rule()
    def commit_write(self) -> None:
        self.desk.commit_held(1)

    @precondition(lambda self: self.desk.held)
    @rule()
    def fail_write(self) -> None:
        self.desk.fail_held()
