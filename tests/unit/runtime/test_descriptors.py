"""Which of a process's sockets its death closes first."""

from __future__ import annotations

import select
import socket
import subprocess
import sys

from kafkaesque.runtime.descriptors import lift

_CHILD = """
import socket, sys, time
from kafkaesque.runtime.descriptors import lift
first, second = [socket.socket(fileno=int(each)) for each in sys.argv[1:]]
first = lift(first, 6)
print("ready", flush=True)
time.sleep(60)
"""


def test_a_lifted_socket_is_the_same_socket_under_a_higher_descriptor() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    below = ours.fileno()
    lifted = lift(ours, 6)
    higher = lift(theirs, 7)
    with lifted, higher:
        assert ours.fileno() == -1
        assert below < lifted.fileno() < higher.fileno()
        assert lifted.gettimeout() == 0.0
        assert not lifted.get_inheritable()
        lifted.send(b"x")
        assert higher.recv(1) == b"x"


def test_who_holds_the_other_end_of_a_lifted_socket_hears_first_that_a_process_died() -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    theirs = [str(their.fileno()) for _, their in pairs]
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, *theirs],
        stdout=subprocess.PIPE,
        pass_fds=[int(each) for each in theirs],
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        with select.epoll() as epoll:
            for our, their in pairs:
                their.close()
                epoll.register(our, select.EPOLLIN)
            child.kill()
            child.wait()
            heard = [fd for fd, _ in epoll.poll(5.0)]
            if len(heard) < len(pairs):
                heard += [fd for fd, _ in epoll.poll(5.0) if fd not in heard]
        assert heard == [our.fileno() for our, _ in pairs]
    finally:
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()
        for our, _ in pairs:
            our.close()
