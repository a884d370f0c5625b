from kafkaesque.client.async_client import AsyncClient as AsyncClient
from kafkaesque.client.client import Client as Client
from kafkaesque.client.events.filters import Filter as Filter
from kafkaesque.client.message import Message as Message
from kafkaesque.client.streams.records import Event as Event
from kafkaesque.client.working import Reject as Reject
from kafkaesque.client.working import Retry as Retry

__version__: str
