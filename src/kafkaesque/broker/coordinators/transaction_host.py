"""The host of one table of transactions, with the words that it speaks."""

from kafkaesque.broker.coordinators.table_host import TableHost
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import MarkersWritten, Request
from kafkaesque.transactions.results import (
    ConfirmPartitions,
    NeedProducerId,
    Result,
    WriteMarkers,
)
from kafkaesque.transactions.table import TransactionTable

#: What those hear who ask: the table's answer, or why there is no table to ask.
Answer = Result | TransactionError
#: What the table wants done beside answers and appends.
Wanted = NeedProducerId | WriteMarkers | ConfirmPartitions
TransactionHost = TableHost[TransactionTable, Request, MarkersWritten, Answer, Wanted]
