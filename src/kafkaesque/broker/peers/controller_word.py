"""What a heartbeat says of its sender's controller; `controller.founding` makes something of it."""

from typing import NamedTuple

#: It is no founder and has no log of group 0; it is a founder and has none; it knows of one.
NOTHING = 0
EMPTY = 1
SETTLED = 2


class ControllerWord(NamedTuple):
    """A standing, and whom it has counted."""

    standing: int = NOTHING
    #: The incarnation of the receiver that the sender has counted in a new cluster; 0: none.
    founding: int = 0
    #: The sender's newest term of group 0.
    term: int = 0
