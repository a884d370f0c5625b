"""Pictures of logs: what is in them, who has copies, who reads, and what holds together."""

from __future__ import annotations

from collections.abc import Sequence

from pictures.canvas import Canvas, Tone

_COMMITTED: tuple[Tone, ...] = ("green",)


def log() -> Canvas:
    """Records, offsets and segments of one partition."""
    c = Canvas(
        "The log of one partition",
        "Records have the offsets 0 to 11. Three segment files hold them. Records 0 to 9 are"
        " committed and synced on a majority. Records 10 and 11 are appended and not committed."
        " Consumers read up to the high watermark, producers append at the end.",
        330,
    )
    c.text(24, 26, "Partition 0 of the topic trades", kind="strong")
    for number in range(3):
        x = 24 + number * 214
        c.frame((x, 72, 204, 92))
        c.text(x + 7, 88, f"{number * 4:020d}.log", kind="code")
        first = number * 4
        texts = [str(each) for each in range(first, first + 4)]
        tones: tuple[Tone, ...] = _COMMITTED
        if number == 2:
            tones = ("green", "green", "amber", "amber")
        c.cells(x + 30, 112, texts, tones)
    c.text(662, 110, "producers", kind="small")
    c.text(662, 128, "append", kind="small")
    c.arrow((720, 146), (638, 146))
    c.line((554, 50), (554, 76))
    c.line((554, 102), (554, 186))
    c.text(554, 40, "high watermark", kind="small", anchor="middle")
    c.text(24, 56, "the oldest segment is deleted first", kind="small")
    c.arrow((322, 206), (322, 148))
    c.text(322, 218, "group audit: offset 5", kind="small", anchor="middle")
    c.arrow((536, 206), (536, 148))
    c.text(536, 218, "group billing: offset 9", kind="small", anchor="middle")
    c.box((24, 252, 22, 22), tone="green")
    c.text(56, 263, "committed: a majority of the replicas has it, synced", kind="small")
    c.box((24, 286, 22, 22), tone="amber")
    c.text(56, 297, "appended, not committed yet: consumers do not see it", kind="small")
    c.box(
        (470, 250, 266, 58),
        ("write-ahead log of the broker", "one sync for all partitions"),
        kinds=("normal", "small"),
        tone="blue",
    )
    return c


def replication() -> Canvas:
    """A leader dies: what is committed stays."""
    c = Canvas(
        "A leader is killed, and another replica leads",
        "Before: broker 1 leads, brokers 2 and 3 follow. Records 0 to 2 are on a majority. Record 3"
        " is on broker 1 alone. After broker 1 was killed, broker 2 leads with records 0 to 2 and"
        " appends another record 3. Broker 1 comes back, drops its old record 3 and follows.",
        318,
    )
    c.text(196, 26, "before", kind="strong", anchor="middle")
    c.text(566, 26, "after", kind="strong", anchor="middle")
    rows: list[tuple[str, str, list[str], tuple[Tone, ...]]] = [
        ("broker 1", "leader", ["0", "1", "2", "3"], ("green", "green", "green", "red")),
        ("broker 2", "follower", ["0", "1", "2"], ("green",)),
        ("broker 3", "follower", ["0", "1"], ("green",)),
    ]
    for number, (name, role, texts, tones) in enumerate(rows):
        y = 48 + number * 66
        c.box(
            (24, y, 104, 48),
            (name, role),
            kinds=("normal", "small"),
            tone="blue" if number == 0 else "plain",
        )
        c.cells(148, y + 8, texts, tones)
    c.cross(116, 72, size=7)
    later: list[tuple[str, str, list[str], tuple[Tone, ...]]] = [
        ("broker 1", "follower", ["0", "1", "2", "3'"], ("green",)),
        ("broker 2", "leader", ["0", "1", "2", "3'"], ("green",)),
        ("broker 3", "follower", ["0", "1", "2", "3'"], ("green",)),
    ]
    c.arrow((330, 138), (374, 138))
    for number, (name, role, texts, tones) in enumerate(later):
        y = 48 + number * 66
        c.box(
            (394, y, 104, 48),
            (name, role),
            kinds=("normal", "small"),
            tone="blue" if number == 1 else "plain",
        )
        c.cells(518, y + 8, texts, tones)
    c.text(676, 64, "came back:", kind="small")
    c.text(676, 82, "dropped 3", kind="small")
    c.box((24, 252, 22, 22), tone="green")
    c.text(56, 263, "committed: on two of three, synced. It stays.", kind="small")
    c.box((384, 252, 22, 22), tone="red")
    c.text(416, 263, "on one replica, not acknowledged: may be lost.", kind="small")
    c.text(
        24,
        296,
        "Broker 3 cannot win the election: its log is shorter than that of broker 2.",
        kind="small",
    )
    return c


def delivery() -> Canvas:
    """Where each step may fail, and what follows."""
    c = Canvas(
        "Where each step may fail",
        "At most once: take, acknowledge, work; a consumer that dies before the work loses the"
        " message. At least once: take, work, acknowledge; one that dies before it acknowledges"
        " has the message worked on again. Exactly once: take, then results and acknowledgement"
        " in one transaction; one that dies before the commit leaves nothing.",
        344,
    )
    rows: Sequence[tuple[str, tuple[str, ...], Tone, str]] = [
        ("at most once", ("take", "acknowledge", "work"), "red", "lost"),
        ("at least once", ("take", "work", "acknowledge"), "amber", "worked on again"),
    ]
    c.text(24, 26, "The consumer dies at the cross", kind="strong")
    for number, (name, steps, tone, said) in enumerate(rows):
        y = 46 + number * 64
        c.text(24, y + 22, name)
        for step, text in enumerate(steps):
            c.box((150 + step * 152, y, 118, 44), text)
            if step:
                x = 150 + step * 152
                c.arrow((x - 34, y + 22), (x, y + 22))
        c.cross(437, y + 22)
        c.box((594, y, 142, 44), said, tone=tone)
    y = 174
    c.text(24, y + 22, "exactly once")
    c.box((150, y, 118, 44), "take")
    c.arrow((268, y + 22), (302, y + 22))
    c.frame((302, y - 6, 264, 56))
    c.box((310, y, 118, 44), ("results", "+ position"), kinds=("small",))
    c.box((448, y, 110, 44), "commit", tone="green")
    c.arrow((428, y + 22), (448, y + 22))
    c.cross(438, y + 22)
    c.box((594, y, 142, 44), ("nothing is seen,", "then done once"), tone="green", kinds=("small",))
    c.line((24, 244), (736, 244))
    c.text(24, 264, "The answer to a publisher is lost", kind="strong")
    c.box((24, 284, 150, 44), ("message 7", "is committed"), kinds=("small",), tone="green")
    c.arrow((174, 306), (222, 306))
    c.cross(198, 306)
    c.box((222, 284, 130, 44), "put it again")
    c.arrow((352, 306), (392, 306))
    c.box(
        (392, 284, 156, 44), ("without an id:", "it is there twice"), kinds=("small",), tone="amber"
    )
    c.box(
        (564, 284, 172, 44),
        ("with an id or a number:", "it is there once"),
        kinds=("small",),
        tone="green",
    )
    return c


def groups() -> Canvas:
    """A consumer group beside a share group."""
    c = Canvas(
        "A consumer group and a share group",
        "A consumer group gives whole partitions to its members: member A has partitions 0 and 1,"
        " member B has partition 2. A share group gives single records of a partition to its"
        " members: each record is locked for one of them.",
        330,
    )
    c.text(24, 26, "Consumer group: by partition", kind="strong")
    for number in range(3):
        y = 48 + number * 62
        c.text(24, y + 16, f"p{number}", kind="small")
        c.cells(54, y, ["0", "1", "2", "3"], ("plain", "plain", "blue", "blue"))
        c.arrow((206, y + 16), (262, 80 if number < 2 else 188))
    c.box((262, 56, 96, 44), "member A")
    c.box((262, 166, 96, 44), "member B")
    c.text(24, 250, "A group commits one offset for", kind="small")
    c.text(24, 268, "each partition. What is before it", kind="small")
    c.text(24, 286, "is done; records stay in the log.", kind="small")
    c.line((378, 20), (378, 310))
    c.text(398, 26, "Share group: by record", kind="strong")
    c.text(398, 64, "p0", kind="small")
    tones: tuple[Tone, ...] = ("plain", "plain", "blue", "plain", "amber", "amber", "blue", "blue")
    c.cells(428, 48, [str(each) for each in range(8)], tones)
    c.box((428, 150, 96, 44), "member A")
    c.box((540, 150, 96, 44), "member B")
    c.arrow((592, 82), (490, 150))
    c.arrow((629, 82), (598, 150))
    legend: Sequence[tuple[float, Tone, str]] = (
        (222, "plain", "accepted"),
        (254, "amber", "locked for one member"),
        (286, "blue", "waits"),
    )
    for top, tone, text in legend:
        c.box((398, top, 22, 22), tone=tone)
        c.text(430, top + 11, text, kind="small")
    return c


def transactions() -> Canvas:
    """Three logs with records of one transaction."""
    c = Canvas(
        "One transaction over a topic and two queues",
        "The client writes to three logs: a record in the topic paid, a message in the queue"
        " invoices, and the acknowledgement of a message in the queue orders. Readers see none of"
        " it. The coordinator commits its decision. Then each log gets a marker, and all holds.",
        330,
    )
    c.box((24, 108, 116, 56), "client")
    c.box(
        (24, 236, 116, 58), ("coordinator", "its own log"), kinds=("normal", "small"), tone="blue"
    )
    c.arrow((82, 164), (82, 236))
    c.text(92, 200, "2 commit", kind="small")
    rows = [
        ("topic paid", "record"),
        ("queue invoices", "message"),
        ("queue orders", "acknowledged"),
    ]
    for number, (name, text) in enumerate(rows):
        y = 52 + number * 74
        c.text(250, y - 14, name, kind="small")
        c.cells(250, y, ["", ""], ("plain",))
        c.box((324, y, 130, 32), text, tone="amber", kinds=("small",))
        c.box((457, y, 84, 32), "marker", tone="green", kinds=("small",))
        c.arrow((140, 136), (250, y + 16))
    c.text(150, 88, "1 write", kind="small")
    c.line((140, 272), (554, 272), (554, 68))
    for number in range(3):
        c.arrow((554, 68 + number * 74), (541, 68 + number * 74))
    c.text(330, 260, "3 write a marker into each log", kind="small", anchor="middle")
    c.frame((572, 30, 164, 206), "what others see")
    c.text(584, 76, "before the marker:", kind="small")
    c.text(584, 98, "nothing")
    c.text(584, 146, "after it:", kind="small")
    c.text(584, 168, "all of it")
    c.text(584, 200, "(aborted: nothing)", kind="small")
    c.text(24, 314, "If nobody says commit, the coordinator aborts after a time-out.", kind="small")
    return c
