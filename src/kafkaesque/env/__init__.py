"""The four doors to the world: clock, dice, disk and network, as protocols."""

from dataclasses import dataclass

from kafkaesque.env.clock import Clock
from kafkaesque.env.dice import Dice
from kafkaesque.env.disk import Disk
from kafkaesque.env.network import Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """The world, as one broker sees it."""

    clock: Clock
    dice: Dice
    disk: Disk
    network: Network
