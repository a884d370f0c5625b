"""Pictures of patterns: queues, exchanges, names, sessions, and protocols that meet."""

from __future__ import annotations

from collections.abc import Sequence

from pictures.canvas import Canvas, Tone


def queues() -> Canvas:
    """Where a message of a queue may be."""
    c = Canvas(
        "The places of a message in a queue",
        "A message that is put is ready, or delayed first. A consumer takes it: it is in flight."
        " Acknowledged, it is settled and gone. Released, or when its lock ends, it is ready"
        " again. After too many failed attempts, or rejected, it is a dead letter, in another queue"
        " or parked. Redriven, it is ready again. Each step is a record in the queue's log.",
        344,
    )
    c.text(24, 26, "Places of a message", kind="strong")
    c.text(24, 76, "put", kind="small")
    c.arrow((50, 76), (98, 76))
    c.box((98, 54, 92, 44), "delayed")
    c.arrow((190, 76), (250, 76))
    c.text(220, 64, "time", kind="small", anchor="middle")
    c.arrow((38, 88), (38, 122), (298, 122), (298, 98))
    c.text(165, 134, "without a delay", kind="small", anchor="middle")
    c.box((250, 54, 96, 44), "ready", tone="blue")
    c.arrow((346, 66), (436, 66))
    c.text(391, 54, "take", kind="small", anchor="middle")
    c.arrow((436, 88), (346, 88))
    c.text(391, 102, "release,", kind="small", anchor="middle")
    c.text(391, 120, "lock ends", kind="small", anchor="middle")
    c.box((436, 54, 96, 44), "in flight", tone="amber")
    c.arrow((532, 76), (636, 76))
    c.text(582, 64, "acknowledge", kind="small", anchor="middle")
    c.box((636, 54, 100, 44), "settled", tone="green")
    c.arrow((484, 98), (484, 158))
    c.text(494, 128, "rejected, or too many failures", kind="small")
    c.box(
        (438, 158, 170, 44),
        ("dead letter", "queue, topic or parked"),
        tone="red",
        kinds=("normal", "small"),
    )
    c.arrow((438, 180), (322, 180), (322, 98))
    c.text(376, 192, "redrive", kind="small", anchor="middle")
    c.line((24, 224), (736, 224))
    c.text(24, 246, "The queue's log, on three replicas", kind="strong")
    records: Sequence[tuple[float, float, str, Tone]] = (
        (24, 84, "put 1", "plain"),
        (111, 84, "put 2", "plain"),
        (198, 150, "taken 1, until 10:30", "amber"),
        (351, 110, "settled 1", "green"),
        (464, 150, "taken 2, until 10:31", "amber"),
        (617, 119, "failed 2", "red"),
    )
    for x, wide, text, tone in records:
        c.box(
            (x, 266, wide, 34),
            text,
            kinds=("small",),
            tone=tone,
        )
    c.text(
        24,
        322,
        'A message is given out when its "taken" is committed. The next leader reads the same log.',
        kind="small",
    )
    return c


def exchanges() -> Canvas:
    """Exchanges pass messages on by their bindings."""
    c = Canvas(
        "An exchange with three bindings, and amq.topic",
        "A message with the routing key db.error comes to the exchange logs. The binding *.error"
        " leads to the queue errors, the binding # to the queue everything, the binding db.# to"
        " the topic archive. Below, publishers and subscribers of MQTT, STOMP and NATS meet AMQP at"
        " the exchange amq.topic.",
        350,
    )
    c.box((24, 78, 150, 48), ("publisher", "key db.error"), kinds=("normal", "small"))
    c.arrow((174, 102), (240, 102))
    c.box(
        (240, 70, 130, 64),
        ("exchange", "logs", "topic"),
        tone="blue",
        kinds=("small", "strong", "small"),
    )
    for number, (key, kind, name) in enumerate(
        (("*.error", "queue", "errors"), ("#", "queue", "everything"), ("db.#", "topic", "archive"))
    ):
        y = 42 + number * 60
        c.arrow((370, 102), (420, y), (560, y))
        c.text(490, y - 11, key, kind="code", anchor="middle")
        c.box((560, y - 22, 176, 44), f"{kind} {name}", tone="green")
    c.line((24, 206), (736, 206))
    for number, text in enumerate(("MQTT", "STOMP", "NATS", "AMQP")):
        c.box((24, 222 + number * 30, 100, 26), text)
        c.arrow((124, 235 + number * 30), (240, 280))
    c.box((240, 250, 130, 60), ("exchange", "amq.topic"), tone="blue", kinds=("small", "strong"))
    c.arrow((370, 280), (430, 244), (500, 244))
    c.arrow((370, 280), (430, 314), (500, 314))
    c.box((500, 222, 236, 44), ("live subscribers", "at any broker"), kinds=("normal", "small"))
    c.box((500, 292, 236, 44), "bound queues and topics", tone="green")
    return c


def names() -> Canvas:
    """One name in four protocols, and the topic that a route leads to."""
    c = Canvas(
        "One name, and a route to a topic",
        "MQTT's topic house/kitchen/heat, NATS' subject house.kitchen.heat, STOMP's destination"
        " /topic/house.kitchen.heat and AMQP's routing key house.kitchen.heat are one name."
        " Subscribers whose filter fits get the message. The route house/# appends it to the topic"
        " readings, where the name is the key and chooses the partition.",
        300,
    )
    for number, (protocol, name) in enumerate(
        (
            ("MQTT", "house/kitchen/heat"),
            ("NATS", "house.kitchen.heat"),
            ("STOMP", "/topic/house.kitchen.heat"),
            ("AMQP", "house.kitchen.heat"),
        )
    ):
        y = 30 + number * 62
        c.box((24, y, 222, 50), (protocol, name), kinds=("strong", "code"))
        c.arrow((246, y + 25), (300, 148))
    c.box((300, 116, 130, 64), ("one name", "in amq.topic"), tone="blue", kinds=("strong", "small"))
    c.arrow((430, 148), (470, 66), (510, 66))
    c.arrow((430, 148), (470, 216), (510, 216))
    c.box(
        (510, 30, 226, 72),
        ("live subscribers", "house/+/heat", "house.>"),
        kinds=("normal", "code", "code"),
    )
    c.text(510, 140, "route", kind="small")
    c.text(552, 140, "house/#", kind="code")
    c.frame((510, 158, 226, 116), "topic readings")
    for number in range(2):
        y = 188 + number * 42
        c.text(520, y + 16, f"p{number}", kind="small")
        c.cells(548, y, ["", "", "", ""], ("plain", "green") if number == 0 else ("plain",))
    c.text(
        30, 286, "The name is the record's key: messages of one name are in order.", kind="small"
    )
    return c


def sessions() -> Canvas:
    """What a client gets that was away."""
    c = Canvas(
        "A client that goes away and comes back",
        "Messages 1 to 5 are published. The client is away while 3 and 4 are published. A session"
        " that ends with its connection gets 1, 2 and 5. A session that is kept has a queue, and"
        " gets 3, 4 and 5 when it is back. A new subscriber gets the retained message, the last one"
        " of its name, at once.",
        330,
    )
    c.frame((384, 38, 168, 276), "the client is away")
    c.text(24, 84, "published")
    for number in range(5):
        c.box((230 + number * 90, 68, 40, 32), str(number + 1), tone="blue")
    c.text(24, 146, "ends with its connection")
    c.text(24, 214, "is kept")
    c.text(24, 282, "retained: the last one")
    for number in (0, 1, 4):
        c.box((230 + number * 90, 130, 40, 32), str(number + 1), tone="green")
    c.cross(430, 146)
    c.cross(520, 146)
    c.box((230, 198, 40, 32), "1", tone="green")
    c.box((320, 198, 40, 32), "2", tone="green")
    c.box((410, 198, 40, 32), "3", tone="amber")
    c.box((500, 198, 40, 32), "4", tone="amber")
    c.arrow((540, 214), (578, 214))
    for number, text in enumerate("345"):
        c.box((578 + number * 43, 198, 40, 32), text, tone="green")
    c.text(475, 180, "wait in a queue", kind="small", anchor="middle")
    for number in range(5):
        c.box((230 + number * 90, 266, 40, 32), str(number + 1), tone="amber")
    c.arrow((630, 282), (650, 282))
    c.box((650, 260, 96, 44), ("a new", "subscriber"), kinds=("small",))
    c.text(24, 26, "A subscription to one name; time goes to the right", kind="strong")
    return c


def protocols() -> Canvas:
    """The way of a message from one protocol to others."""
    c = Canvas(
        "The way of a message across protocols",
        "A gateway for each protocol reads what a client sends. Routing picks the logs: a topic's"
        " partition or a queue. There the message is one record with key, headers and value, on"
        " three replicas. Gateways write it for clients of other protocols, with its properties.",
        340,
    )
    names_in = ("Kafka", "AMQP", "MQTT", "STOMP", "NATS", "SQS")
    c.text(24, 24, "1 gateway", kind="strong")
    c.text(166, 24, "2 routing", kind="strong")
    c.text(324, 24, "3 log", kind="strong")
    c.text(642, 24, "4 gateway", kind="strong")
    for number, name in enumerate(names_in):
        y = 44 + number * 48
        c.box((24, y, 86, 36), name)
        c.box((642, y, 94, 36), name)
        c.arrow((110, y + 18), (166, 182))
        c.arrow((584, 182), (642, y + 18))
    c.box(
        (166, 140, 110, 84),
        ("exchange,", "route, or the", "name itself"),
        tone="blue",
        kinds=("small",),
    )
    c.arrow((276, 182), (324, 182))
    c.frame((324, 44, 260, 276), "a record of a topic or a queue")
    for y, first, second in (
        (78, "key", "house.kitchen"),
        (134, "content-type", "text/plain"),
        (190, "reply-to", "answers.7"),
        (246, "value", "21.5"),
    ):
        c.box((340, y, 104, 40), first, kinds=("small",))
        c.box((447, y, 122, 40), second, kinds=("small",), tone="green")
    c.text(454, 304, "three replicas, synced", kind="small", anchor="middle")
    return c
