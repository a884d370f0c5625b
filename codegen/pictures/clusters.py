"""Pictures of what surrounds the logs: schemas, security, controllers, pipelines."""

from __future__ import annotations

from collections.abc import Sequence

from pictures.canvas import Canvas, Tone


def schemas() -> Canvas:
    """A record names its schema by a number."""
    c = Canvas(
        "A record names its schema",
        "The producer's serializer registers a schema and gets the id 1. The record's value begins"
        " with a zero byte and the id, then come the data. The consumer's deserializer asks the"
        " registry for schema 1. A new version of the schema is refused if it does not fit.",
        316,
    )
    c.box((24, 168, 130, 50), ("producer", "serializer"), kinds=("normal", "small"))
    c.box((606, 168, 130, 50), ("consumer", "deserializer"), kinds=("normal", "small"))
    c.box(
        (270, 30, 220, 64),
        ("schema registry", "subject orders-value"),
        tone="blue",
        kinds=("strong", "small"),
    )
    c.arrow((89, 168), (89, 62), (270, 62), is_two_way=True)
    c.text(102, 82, "1 register: id 1", kind="small")
    c.arrow((671, 168), (671, 62), (490, 62), is_two_way=True)
    c.text(658, 82, "3 get schema 1", kind="small", anchor="end")
    c.arrow((154, 193), (206, 193))
    c.box((206, 173, 50, 40), "00", kinds=("code",))
    c.box((259, 173, 130, 40), "00 00 00 01", kinds=("code",), tone="amber")
    c.box((392, 173, 162, 40), "0e", kinds=("code",), tone="green")
    c.arrow((554, 193), (606, 193))
    c.text(231, 228, "zero", kind="small", anchor="middle")
    c.text(324, 228, "schema id", kind="small", anchor="middle")
    c.text(473, 228, "data: Avro, JSON, Protobuf", kind="small", anchor="middle")
    c.text(380, 158, "2 the value of a record", kind="small", anchor="middle")
    c.box((24, 258, 340, 40), "version 2 adds a field with a default", tone="green")
    c.text(376, 278, "taken", kind="small")
    c.box((446, 258, 200, 40), "without a default", tone="red")
    c.text(658, 278, "refused", kind="small")
    return c


def security() -> Canvas:
    """From a connection to a decision."""
    c = Canvas(
        "From a connection to a decision",
        "A client connects to a listener, which may require TLS and a log-in. A password, a"
        " certificate or a token says which user it is. Rules say what the user may do: a rule that"
        " denies wins, then one that allows; without a rule there is no access. Log-ins, refusals"
        " and changes go to the audit log.",
        310,
    )
    boxes: Sequence[tuple[float, str, str, Tone]] = (
        (24, "client", "any protocol", "plain"),
        (214, "listener", "TLS, log-in", "blue"),
        (404, "user", "User:app", "blue"),
        (594, "rules", "may it do this?", "blue"),
    )
    for x, name, more, tone in boxes:
        c.box(
            (x, 54, 142, 56),
            (name, more),
            kinds=("strong", "small"),
            tone=tone,
        )
    for x in (166, 356, 546):
        c.arrow((x, 82), (x + 48, 82))
    c.text(475, 126, "password, certificate,", kind="small", anchor="middle")
    c.text(475, 144, "token, access key", kind="small", anchor="middle")
    c.text(24, 26, "Every request of every protocol", kind="strong")
    outcomes: Sequence[tuple[str, str, Tone]] = (
        ("a rule denies it", "refused", "red"),
        ("else a rule allows it", "done", "green"),
        ("else", "refused", "red"),
    )
    for number, (rule, said, outcome) in enumerate(outcomes):
        y = 178 + number * 40
        c.box((404, y, 200, 34), rule)
        c.arrow((604, y + 17), (640, y + 17))
        c.box((640, y, 96, 34), said, tone=outcome)
    c.arrow((665, 110), (665, 158), (504, 158), (504, 178))
    c.frame((396, 170, 348, 130))
    c.arrow((251, 110), (251, 206))
    c.box(
        (140, 206, 204, 56),
        ("audit log", "log-ins, refusals, changes"),
        tone="amber",
        kinds=("normal", "small"),
    )
    c.arrow((396, 234), (344, 234))
    return c


def controllers() -> Canvas:
    """Three controllers decide, all brokers follow."""
    c = Canvas(
        "Controllers, brokers and gossip",
        "Brokers 1, 2 and 3 are controllers: they vote on the log of the cluster's metadata, and"
        " one of them leads. Brokers 4 and 5 follow that log without a vote. Each partition is a"
        " Raft group of its own. All brokers gossip about who is alive.",
        330,
    )
    c.text(
        24,
        26,
        "One log of metadata: topics, replicas, options, users, rules, exchanges",
        kind="strong",
    )
    for number in range(5):
        x = 24 + number * 146
        is_voter = number < 3
        c.box(
            (x, 52, 128, 82),
            (
                f"broker {number + 1}",
                "controller, leads"
                if number == 0
                else "controller, votes"
                if is_voter
                else "follows",
            ),
            tone="blue" if is_voter else "plain",
            kinds=("strong", "small"),
        )
    c.frame((16, 42, 436, 102))
    c.text(460, 156, "a majority of the controllers decides", kind="small", anchor="end")
    c.text(24, 186, "Each partition is a group of its own", kind="strong")
    for row, (name, places) in enumerate((("orders-0", (0, 1, 3)), ("orders-1", (4, 2, 1)))):
        y = 206 + row * 36
        for number, place in enumerate(places):
            x = 24 + place * 146
            c.box(
                (x, y, 128, 30),
                f"{name} leads" if number == 0 else name,
                kinds=("small",),
                tone="green" if number == 0 else "plain",
            )
    c.line((24, 284), (736, 284))
    c.arrow((24, 306), (250, 306), is_two_way=True)
    c.arrow((510, 306), (736, 306), is_two_way=True)
    c.text(380, 306, "gossip: who is alive, who leads", kind="small", anchor="middle")
    return c


def pipelines() -> Canvas:
    """A micro-batch from topic to topic."""
    c = Canvas(
        "A micro-batch of a pipeline",
        "A flow reads the offsets 4 to 7 of the topic orders, as its checkpoint says. Spark"
        " transforms them. Records for the topic orders.large and a marker with the number of the"
        " micro-batch are written in one transaction. If the run dies, the next one repeats the"
        " micro-batch, finds the marker and writes nothing.",
        300,
    )
    c.text(24, 26, "topic orders", kind="strong")
    c.cells(24, 46, [str(each) for each in range(8)], ("plain", "plain", "plain", "plain", "blue"))
    c.frame((24, 116, 712, 114), "one run of a flow, on Spark")
    c.box(
        (44, 146, 150, 66),
        ("checkpoint", "micro-batch 7:", "offsets 4 to 7"),
        tone="amber",
        kinds=("normal", "small"),
    )
    c.arrow((194, 179), (236, 179))
    c.box((236, 146, 120, 66), ("read", "batches to", "columns"), kinds=("normal", "small"))
    c.arrow((356, 179), (398, 179))
    c.box((398, 146, 132, 66), ("transform", "Python or SQL"), kinds=("normal", "small"))
    c.arrow((530, 179), (572, 179))
    c.box(
        (572, 146, 146, 66),
        ("write", "one transaction", "for each task"),
        kinds=("normal", "small"),
        tone="blue",
    )
    c.arrow((246, 78), (296, 146))
    c.text(420, 26, "topic orders.large", kind="strong")
    c.text(616, 26, "the sink's group", kind="small")
    c.cells(420, 46, ["0", "1", "2"], ("plain", "green"))
    c.box((616, 46, 120, 32), "marker 7", tone="green", kinds=("small",))
    c.arrow((640, 146), (532, 80))
    c.arrow((650, 146), (676, 80))
    c.text(
        24,
        256,
        "The run dies after the transaction, before the checkpoint says that it is done:",
        kind="small",
    )
    c.text(
        24,
        278,
        "the next run repeats micro-batch 7, finds marker 7, and writes nothing.",
        kind="small",
    )
    return c
