"""Publishers and consumers of AMQP over exchanges, and what is found wrong with what they see."""
