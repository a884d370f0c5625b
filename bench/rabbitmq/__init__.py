"""RabbitMQ and our AMQP, side by side: random sequences of methods, and what both answer."""
