"""What gateways share that push the messages of queues: desks, consumers, settlements."""
