"""Drawing lots."""

from kafkaesque.env.dice import Dice
from kafkaesque.model.ids import NodeId


def drawn(nodes: list[NodeId], count: int, dice: Dice) -> list[NodeId]:
    """Return so many of the nodes, or all if there are fewer, in a random order."""
    left = list(nodes)
    count = min(count, len(left))
    for place in range(count):
        other = place + dice.below(len(left) - place)
        left[place], left[other] = left[other], left[place]
    return left[:count]
