"""Right forms, as errors and HELP show them."""

PUBLISH = 'PUBS flights {"Key": "UA1545", "Body": {"delay": 11}}'
PUBLISH_WITH_HEADER = 'PUBS flights {"Header": {"from": "EWR"}, "Key": "UA1545", "Body": "late"}'
PUBLISH_TEXT = "PUBS flights UA1545 is late"
SUBSCRIBE = "SUBS flights readers"
SUBSCRIBE_SOME = "SUBS flights readers 0,2-5"
#: What `SUBSCRIBE` answers.
SUBSCRIPTION_ID = "readers/all/d7e74a"
CONSUME_NEXT = f"CONS flights {SUBSCRIPTION_ID} next"
CONSUME_EARLIEST = f"CONS flights {SUBSCRIPTION_ID} earliest"
CONSUME_OFFSET = f"CONS flights {SUBSCRIPTION_ID} 42"
CONSUME_OFFSETS = f"CONS flights {SUBSCRIPTION_ID} 0:42,1:17"
PUT = "PUT mails hello"
PUT_LATER = 'PUT mails {"Body": "hello", "Priority": 5, "Delay": 60}'
GET = "GET mails"
GET_WAITING = "GET mails 10"
ACK = "ACK mails 17"
NACK = "NACK mails 17"
NACK_LATER = "NACK mails 17 60"
QUEUES = "QUEUES"
AUTH = "AUTH alice password"
TOPICS = "TOPICS"
HELP = "HELP"
QUIT = "QUIT"
