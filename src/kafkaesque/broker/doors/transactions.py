"""Transactional producers: their coordinators on this broker, and ids for producers."""

from collections.abc import Callable

from kafkaesque.broker.controller.producer_ids import OnProducerId, ProducerIds
from kafkaesque.broker.coordinators.transaction_runner import TransactionRunner
from kafkaesque.broker.coordinators.transactions import TransactionCoordinators


class Transactions:
    """`step` needs the coordinator of a transactional id to be here."""

    __slots__ = (
        "confirm",
        "coordinators",
        "find",
        "list_transactions",
        "list_whole",
        "new_producer_id",
        "next_token",
        "run",
        "step",
        "when_found",
    )

    def __init__(
        self,
        *,
        coordinators: TransactionCoordinators,
        ids: ProducerIds,
        runner: TransactionRunner,
    ) -> None:
        #: Runs a transaction over queues and topics that is said all at once.
        self.run = runner.run
        #: The tables on this broker, for those who count them.
        self.coordinators = coordinators
        #: Brings a request to the coordinator on this broker, or says that it is elsewhere.
        self.step = coordinators.step
        self.next_token = coordinators.next_token
        #: Where the coordinator is: the partition whose leader it is.
        self.find = coordinators.find
        self.when_found = coordinators.when_found
        self.list_transactions = coordinators.list_transactions
        #: The same with what the list is whole of.
        self.list_whole = coordinators.list_whole
        #: Asks the coordinator, wherever it is, whether a partition takes part in a transaction.
        self.confirm = coordinators.confirm
        #: Gives out an id that no producer has had.
        self.new_producer_id: Callable[[OnProducerId], None] = ids.allocate
