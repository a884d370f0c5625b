from kafkaesque.client.async_client import AsyncClient as AsyncClient
from kafkaesque.client.client import Client as Client
from kafkaesque.client.message import Message as Message
from kafkaesque.client.working import Reject as Reject
from kafkaesque.client.working import Retry as Retry

__version__: str
