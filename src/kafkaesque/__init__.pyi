from kafkaesque.client.client import Client as Client
from kafkaesque.client.message import Message as Message

__version__: str
