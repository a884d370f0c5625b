"""People at the text port."""

from __future__ import annotations

import random
import re
from typing import ClassVar, Final

from kafkaesque.sim.cluster import TEXT_PORT
from tests.unit.gateway_walks.speaker import NAMES, Speaker

MESSAGES: Final = (
    "hello",
    '{"Body": "b"}',
    '{"Body": {"a": 1}, "Key": "k", "Header": {"a": "b"}}',
    '{"Key": "k"}',
    "{x}",
    "",
    '{"Body": null}',
    '{"Body": "b", "Delay": 5}',
    '{"Body": "b", "Priority": 3, "Group": "g"}',
    "\u00e9\ufeff",
    '{"Body": "\\u0000"}',
)


class TextSpeaker(Speaker):
    port: ClassVar = TEXT_PORT

    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.subscriptions: list[str] = ["g0/all/000000"]
        self.numbers: list[str] = ["1 1"]

    def hear(self, data: bytes) -> None:
        text = data.decode(errors="replace")
        self.subscriptions += re.findall(r"OK (\S+/\S+)", text)
        self.numbers += re.findall(r"MSG (\d+) (?:\d+)", text)

    def say(self) -> bytes:
        dice = self.dice
        name = dice.choice(NAMES) if dice.randrange(12) else self.word().replace("\n", "")
        number = dice.choice(self.numbers[-5:])
        where = dice.choice(
            ("next", "0", "0:5", "-1", "5", "99999999999999999999", "1:2,0:1", "x", "last")
        )
        group = dice.choice(("g0", "g1", "x/y", ""))
        subscribed = dice.choice(self.subscriptions[-5:])
        said = dice.choice(
            (
                f"PUBS {name} {dice.choice(MESSAGES)}",
                f"PUBS {name} {dice.choice(MESSAGES)}",
                f"SUBS {name} {group} {dice.choice(('', '0', '0-5', '0,1', 'x'))}",
                f"CONS {name} {subscribed} {where}",
                f"CONS {name} {subscribed} {where}",
                f"PUT {name} {dice.choice(MESSAGES)}",
                f"PUT {name} {dice.choice(MESSAGES)}",
                f"GET {name} {dice.choice(('', '0', '1', '20', '-1', '0.5', 'x', '99999999'))}",
                f"GET {name} {dice.choice(('', '', '1', '20'))}",
                f"ACK {name} {number}",
                f"NACK {name} {number} {dice.choice(('', '0', '5', '1000000', 'x'))}",
                "QUEUES",
                "TOPICS",
                "HELP",
                dice.choice(("QUIT", "AUTH a b", "X", "", "\x04", "\xff", "get q0", "HELP x")),
            )
        )
        end = dice.choice(("\n", "\r\n", "\n", "\n", "\n")) if dice.randrange(40) else ""
        return said.encode(errors="replace") + end.encode()
