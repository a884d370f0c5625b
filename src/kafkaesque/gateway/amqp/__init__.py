"""AMQP 0-9-1, as clients of RabbitMQ know it."""
