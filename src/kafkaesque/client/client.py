"""The synchronous client."""

from kafkaesque.client.queue_client import QueueClient


class Client(QueueClient):
    """A cluster's queues, for any number of threads.

        with Client("127.0.0.1:9092") as client:
            client.put("orders", {"id": 7})
            message = client.get("orders", timeout=10)
            message.ack()

    Every operation ends within the client's timeout or its own, and raises a `KafkaesqueError` if
    it is not done. `Timeout`, `BrokerUnavailable` and every refusal say that nothing was done;
    `OutcomeUnknown` says that nobody knows.
    """
