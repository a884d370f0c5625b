"""Headers by which records say what queues have to know of them; numbers there are decimal."""

from typing import Final

#: What all their names begin with.
PREFIX: Final = "kafkaesque."
PRIORITY: Final = "kafkaesque.priority"
GROUP: Final = "kafkaesque.group"
#: Unix time in milliseconds from which on the message may be had.
NOT_BEFORE: Final = "kafkaesque.not-before"
#: Unix time in milliseconds at which its life ends.
NOT_AFTER: Final = "kafkaesque.not-after"
#: The same, as milliseconds from when the leader wrote the message: no other clock counts.
DELAY: Final = "kafkaesque.delay"
TIME_TO_LIVE: Final = "kafkaesque.time-to-live"
#: Sixteen bytes by which duplicates are known.
IDENTITY: Final = "kafkaesque.identity"
IDENTITY_BYTES: Final = 16
#: Why a message was given up, once for each time: JSON, by the broker that moved it.
DEATH: Final = "kafkaesque.death"
#: Where a message was first, and when it came there: JSON, by the broker that moved it.
ORIGIN: Final = "kafkaesque.origin"
#: How often brokers have passed a message on from one queue to an exchange: decimal.
FORWARDED: Final = "kafkaesque.forwarded"
#: In which AMQP's gateway keeps a message as it came: who speaks another protocol reads it, too.
STORED_AMQP: Final = "amqp.message"
#: What only MQTT says of a message.
STORED_MQTT: Final = "mqtt.message"
#: A note that a session of MQTT has made for itself.
NOTE_MQTT: Final = "mqtt.note"
#: A message's headers as its publisher wrote them in NATS, where those could not be written again
#: from the record's other headers.
STORED_NATS: Final = "nats.headers"
#: What SQS knows of a message and no other protocol has: JSON.
STORED_SQS: Final = "sqs.message"
#: Of a message whose body stands in a topic: where, see `model.log_reference`.
LOG_REFERENCE: Final = PREFIX + "log"
#: All in which gateways keep what they need: nobody else is shown them or writes them.
OF_GATEWAYS: Final = frozenset((STORED_AMQP, STORED_MQTT, NOTE_MQTT, STORED_NATS, STORED_SQS))
#: Of a broker's own records in a queue's log: messages in flight that a transaction settles.
STAGED = PREFIX + "staged"
