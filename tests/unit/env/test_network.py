import struct
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from kafkaesque.env.disk import FileRange
from kafkaesque.env.network import (
    Address,
    Connection,
    ConnectionHandler,
    Framing,
    Listener,
    ListenOptions,
)
from kafkaesque.model.errors import InvariantBroken
from tests.unit.env.worlds import EofRecorder, Recorder, World

FRAMED = ListenOptions(framing=Framing.LENGTH_PREFIXED, frame_bytes_max=1_000_000)
STREAM = ListenOptions(framing=Framing.STREAM)
LOCAL = Address("127.0.0.1", 0)


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@dataclass
class Pair:
    """A server side and a client side, connected."""

    listener: Listener
    server: Recorder
    client: Recorder


def connect(
    world: World,
    server_options: ListenOptions = FRAMED,
    client_options: ListenOptions = STREAM,
    make: Callable[[], Recorder] = Recorder,
) -> Pair:
    servers: list[Recorder] = []

    def accept() -> ConnectionHandler:
        servers.append(make())
        return servers[-1]

    listener = world.env.network.listen(LOCAL, server_options, accept)
    client = Recorder()
    world.env.network.connect(listener.address, client_options, client, client.failed.append)
    world.run_until(lambda: bool(client.connection and servers and servers[0].connection))
    return Pair(listener, servers[0], client)


def payload_of(size: int) -> bytes:
    return bytes(range(251)) * (size // 251 + 1) if size else b""


def test_connect_and_exchange_frames(world: World) -> None:
    pair = connect(world, FRAMED, FRAMED)
    pair.server.on_piece = lambda piece: pair.server.link.write([frame(b"answer to " + piece)])
    pair.client.link.write([struct.pack(">i", 5), b"hel", bytearray(b"lo")])
    world.run_until(lambda: bool(pair.client.pieces))
    assert pair.server.pieces == [b"hello"]
    assert pair.client.pieces == [b"answer to hello"]
    assert pair.server.link.peer.startswith("127.0.0.1:")


def test_many_frames_in_one_packet_are_all_delivered_in_order(world: World) -> None:
    pair = connect(world)
    payloads = [b"%d" % number * (number % 7) for number in range(2000)]
    pair.client.link.write([b"".join(map(frame, payloads))])
    world.run_until(lambda: len(pair.server.pieces) == 2000)
    assert pair.server.pieces == payloads


def test_the_length_of_frames_can_be_limited_anew_with_each_frame(world: World) -> None:
    pair = connect(world, ListenOptions(framing=Framing.LENGTH_PREFIXED, frame_bytes_max=5))
    pair.server.on_piece = lambda piece: pair.server.link.limit_frames(int(piece[-5:]))
    pair.client.link.write([frame(b"50000"), frame(b"7".zfill(50_000)), frame(b"0000009")])
    world.run_until(lambda: len(pair.server.pieces) == 3)
    assert not pair.server.closed
    pair.client.link.write([frame(b"0000000009")])
    world.run_until(lambda: bool(pair.server.closed))
    assert len(pair.server.pieces) == 3


def test_a_frame_cut_at_every_byte_arrives_whole(world: World) -> None:
    pair = connect(world)
    whole = frame(b"first") + frame(b"") + frame(b"the third")
    for cut in range(1, len(whole)):
        pair.server.pieces.clear()
        pair.client.link.write([whole[:cut]])
        world.run_until(lambda: pair.client.link.unsent_bytes() == 0)
        world.settle() if cut % 8 == 1 else None
        pair.client.link.write([whole[cut:]])
        world.run_until(lambda: len(pair.server.pieces) == 3)
        assert pair.server.pieces == [b"first", b"", b"the third"]


@pytest.mark.parametrize("size", [15_000, 16_384, 65_536, 262_140, 262_141, 300_000, 1_000_000])
def test_frames_of_every_size_arrive_whole(world: World, size: int) -> None:
    pair = connect(world)
    payload = payload_of(size)[:size]
    pair.client.link.write([frame(b"before"), frame(payload) + frame(b"after")])
    pair.client.link.write([frame(payload), frame(b"end")])
    world.run_until(lambda: len(pair.server.pieces) == 5)
    assert pair.server.pieces == [b"before", payload, b"after", payload, b"end"]


def test_a_delivered_buffer_belongs_to_the_handler(world: World) -> None:
    pair = connect(world)
    for size in (100, 200_000):
        pair.client.link.write([frame(bytes(size)), frame(bytes(size))])
    world.run_until(lambda: len(pair.server.buffers) == 4)
    for buffer in pair.server.buffers:
        assert not isinstance(buffer, bytes)
        buffer[:4] = b"mine"
    pair.client.link.write([frame(b"something else")])
    world.run_until(lambda: len(pair.server.buffers) == 5)
    for buffer in pair.server.buffers[:4]:
        assert bytes(buffer[:6]) == b"mine\0\0"


@pytest.mark.parametrize("length", [-1, -(2**31), 1_000_001, 2**31 - 1])
def test_an_impossible_length_closes_the_connection_at_once(world: World, length: int) -> None:
    pair = connect(world)
    pair.client.link.write([frame(b"good"), struct.pack(">i", length), b"rest" * 10])
    world.run_until(lambda: bool(pair.server.closed and pair.client.closed))
    assert pair.server.pieces == [b"good"]
    assert isinstance(pair.server.closed[0], ConnectionError)


def test_parts_arrive_in_the_order_of_writing(world: World) -> None:
    pair = connect(world)
    file = world.env.disk.open("big", create=True)
    content = payload_of(1_500_000)
    file.write_at(0, [content])
    expected = b""
    for length in (10, 70_000, 1, 900_000, 65_536, 65_535, 0):
        head, tail = b"head-%d " % length, bytearray(b" tail-%d " % length)
        pair.server.link.write([head, FileRange(file, 17 + length // 2, length), tail])
        expected += head + content[17 + length // 2 :][:length] + tail
        pair.server.link.write([b"", content[:length]])
        expected += content[:length]
    world.run_until(lambda: len(pair.client.stream) >= len(expected))
    assert pair.client.stream == expected
    assert pair.server.link.unsent_bytes() == 0


def test_a_range_stays_readable_when_its_file_is_closed_and_removed(world: World) -> None:
    pair = connect(world)
    disk = world.env.disk
    disk.make_dir("topic")
    file = disk.open("topic/log", create=True)
    content = payload_of(800_000)
    file.write_at(0, [content])
    pair.server.link.write([FileRange(file, 0, 700_000), FileRange(file, 5, 3)])
    file.close()
    disk.remove("topic/log")
    disk.remove_tree("topic")
    del file
    world.run_until(lambda: len(pair.client.stream) >= 700_003)
    assert pair.client.stream == content[:700_000] + content[5:8]


def test_a_range_beyond_the_end_of_its_file_closes_the_connection(world: World) -> None:
    for length in (100, 500_000):
        pair = connect(world)
        file = world.env.disk.open("short", create=True)
        file.write_at(0, [bytes(50)])
        pair.server.link.write([b"x", FileRange(file, 0, length)])
        world.run_until(lambda pair=pair: bool(pair.server.closed and pair.client.closed))  # type: ignore[misc]
        assert pair.server.closed[0] is not None
        pair.listener.close()


def test_pausing_stops_delivery_and_slows_the_sender_down(world: World) -> None:
    pair = connect(world)
    piece = frame(bytes(50_000))
    pair.server.on_piece = lambda _: pair.server.link.pause_reading()
    count = 1000
    pair.client.link.write([piece] * count)
    world.run_until(lambda: len(pair.server.pieces) == 1)
    world.settle()
    assert len(pair.server.pieces) == 1, "nothing comes while it is paused"
    assert pair.client.link.unsent_bytes() > 10_000_000, "the sender keeps what is not taken"
    assert pair.client.writable_count == 0
    pair.server.link.resume_reading()
    assert len(pair.server.pieces) == 1, "never within the call"
    world.run_until(lambda: len(pair.server.pieces) == 2)
    pair.server.on_piece = None
    pair.server.link.resume_reading()
    world.run_until(lambda: len(pair.server.pieces) == count, 20_000)
    world.run_until(lambda: pair.client.writable_count == 1)
    assert pair.client.link.unsent_bytes() == 0


def test_pause_in_the_midst_of_a_packet_keeps_the_rest_in_order(world: World) -> None:
    pair = connect(world)
    payloads = [b"frame %d" % number for number in range(20)]
    pair.server.on_piece = lambda _: pair.server.link.pause_reading()
    pair.client.link.write([b"".join(map(frame, payloads)) + frame(b"cut")[:5]])
    for count in range(1, 21):
        world.run_until(lambda count=count: len(pair.server.pieces) == count)  # type: ignore[misc]
        pair.server.link.resume_reading()
        pair.server.link.pause_reading()
        pair.server.link.resume_reading()
    pair.client.link.write([frame(b"cut")[5:]])
    world.run_until(lambda: len(pair.server.pieces) == 21)
    assert pair.server.pieces == [*payloads, b"cut"]


def test_a_full_connection_tells_when_it_is_writable_again(world: World) -> None:
    pair = connect(world)
    pair.server.link.write([bytes(100)])
    world.run_until(lambda: len(pair.client.stream) == 100)
    assert pair.server.writable_count == 0, "it was never full"
    pair.client.link.pause_reading()
    pair.server.link.write([bytes(1_000_000)] * 30)
    assert pair.server.link.unsent_bytes() == 30_000_000
    world.settle()
    left = pair.server.link.unsent_bytes()
    assert left > 1_000_000
    world.settle()
    assert pair.server.link.unsent_bytes() == left
    pair.client.link.resume_reading()
    world.run_until(lambda: len(pair.client.stream) == 30_000_100, 20_000)
    world.run_until(lambda: pair.server.writable_count == 1)


def test_close_sends_what_was_written_and_both_sides_learn_of_it_once(world: World) -> None:
    pair = connect(world)
    content = payload_of(5_000_000)
    pair.server.link.write([content])
    pair.server.link.close()
    assert pair.server.closed == []
    pair.server.link.write([b"too late"])
    pair.server.link.close()
    world.run_until(lambda: bool(pair.server.closed and pair.client.closed))
    assert pair.client.stream == content
    assert pair.client.closed == [None]
    assert pair.server.closed == [None]
    pair.server.link.write([b"harmless"])
    pair.server.link.pause_reading()
    pair.server.link.resume_reading()
    pair.server.link.abort()
    world.settle()
    assert pair.server.closed == [None]
    assert pair.server.link.unsent_bytes() == 0


def test_close_delivers_nothing_any_more(world: World) -> None:
    pair = connect(world)
    pair.server.on_piece = lambda _: pair.server.link.close()
    pair.client.link.write([frame(b"one"), frame(b"two"), frame(b"three")])
    world.run_until(lambda: bool(pair.server.closed and pair.client.closed))
    assert pair.server.pieces == [b"one"]
    assert pair.server.closed == [None]


def test_an_answer_before_close_reaches_a_peer_that_goes_on_sending(world: World) -> None:
    pair = connect(world)

    def refuse(_: bytes) -> None:
        pair.server.link.write([b"your request makes no sense"])
        pair.server.link.close()

    pair.server.on_piece = refuse
    pair.client.link.write([frame(b"x") + b"junk that nobody reads" * 100_000])
    world.run_until(lambda: bool(pair.server.closed and pair.client.closed))
    assert pair.client.stream == b"your request makes no sense"
    assert pair.client.closed == [None]


def test_abort_drops_what_was_not_sent(world: World) -> None:
    pair = connect(world)
    pair.client.link.pause_reading()
    pair.server.link.write([bytes(50_000_000)])
    world.settle()
    pair.server.link.abort()
    assert pair.server.closed == []
    pair.client.link.resume_reading()
    world.run_until(lambda: bool(pair.server.closed and pair.client.closed))
    assert pair.server.closed == [None]
    assert isinstance(pair.client.closed[0], ConnectionError)
    assert len(pair.client.stream) < 50_000_000


def test_the_end_of_the_peers_side_closes_after_the_answers(world: World) -> None:
    pair = connect(world)
    content = payload_of(3_000_000)
    pair.server.on_piece = lambda _: pair.server.link.write([content])
    pair.client.link.write([frame(b"question")])
    pair.client.link.close()
    world.run_until(lambda: bool(pair.server.closed and pair.client.closed))
    assert pair.server.closed == [None]
    assert pair.client.closed == [None]
    assert pair.server.pieces == [b"question"]


def test_a_handler_with_on_eof_answers_later_and_closes_itself(world: World) -> None:
    pair = connect(world, make=EofRecorder)
    server = pair.server
    assert isinstance(server, EofRecorder)
    pair.client.link.write([frame(b"question")])
    pair.client.link.close()
    world.run_until(lambda: server.ended == 1)
    world.settle()
    assert server.closed == []
    assert server.pieces == [b"question"]
    server.link.write([b"answer"])
    server.link.close()
    world.run_until(lambda: bool(server.closed and pair.client.closed))
    assert server.closed == [None]
    assert server.ended == 1


def test_the_end_of_the_peers_side_is_told_once(world: World) -> None:
    pair = connect(world, make=EofRecorder)
    server = pair.server
    assert isinstance(server, EofRecorder)
    pair.client.link.write([frame(b"question")])
    pair.client.link.close()
    world.run_until(lambda: server.ended == 1)
    server.link.pause_reading()
    server.link.resume_reading()
    world.settle()
    assert server.ended == 1


def test_bytes_are_counted_as_they_cross_the_wire(world: World) -> None:
    pair = connect(world)
    large, small = frame(payload_of(300_000)), frame(b"small")
    pair.client.link.write([small, large, small[:3]])
    total = len(small) + len(large) + 3
    world.run_until(lambda: pair.server.link.received_bytes() == total)
    assert pair.client.link.sent_bytes() == total
    assert pair.server.link.sent_bytes() == pair.client.link.received_bytes() == 0
    # What the peer does not take has not been sent, and never will be when that goes.
    pair.client.link.pause_reading()
    pair.server.link.write([bytes(20_000_000)])
    world.settle()
    sent = pair.server.link.sent_bytes()
    assert 0 < sent == 20_000_000 - pair.server.link.unsent_bytes()
    pair.server.link.abort()
    assert pair.server.link.sent_bytes() == sent < 20_000_000


def test_one_connection_more_than_allowed_is_closed_at_once(world: World) -> None:
    refused: list[bool] = []
    options = ListenOptions(
        framing=Framing.STREAM, connections_max=2, on_refused=lambda: refused.append(True)
    )
    servers: list[Recorder] = []

    def accept() -> ConnectionHandler:
        servers.append(Recorder())
        return servers[-1]

    listener = world.env.network.listen(LOCAL, options, accept)
    clients = [Recorder() for _ in range(3)]
    for client in clients:
        world.env.network.connect(listener.address, STREAM, client, client.failed.append)
    world.run_until(lambda: any(client.closed for client in clients))
    assert len(servers) == 2
    assert refused == [True]
    assert sum(bool(client.closed) for client in clients) == 1
    servers[0].link.close()
    world.run_until(lambda: bool(servers[0].closed))
    late = Recorder()
    world.env.network.connect(listener.address, STREAM, late, late.failed.append)
    world.run_until(lambda: len(servers) == 3 and late.connection is not None)
    late.link.write([b"room again"])
    world.run_until(lambda: servers[2].stream == b"room again")


def test_nobody_listens(world: World) -> None:
    listener = world.env.network.listen(LOCAL, STREAM, Recorder)
    address = listener.address
    assert address.port > 0
    listener.close()
    listener.close()
    client = Recorder()
    world.env.network.connect(address, STREAM, client, client.failed.append)
    assert client.failed == []
    world.run_until(lambda: bool(client.failed))
    assert isinstance(client.failed[0], OSError)
    world.settle()
    assert len(client.failed) == 1
    assert client.connection is None


def test_a_port_can_be_listened_on_once(world: World) -> None:
    listener = world.env.network.listen(LOCAL, STREAM, Recorder)
    with pytest.raises(OSError, match=str(listener.address.port)):
        world.env.network.listen(listener.address, STREAM, Recorder)
    listener.close()
    world.env.network.listen(listener.address, STREAM, Recorder).close()


def test_connections_outlive_their_listener(world: World) -> None:
    pair = connect(world)
    pair.listener.close()
    pair.client.link.write([frame(b"still here")])
    world.run_until(lambda: pair.server.pieces == [b"still here"])


def test_a_handler_that_closes_in_on_open(world: World) -> None:
    class Rude(Recorder):
        def on_open(self, connection: Connection) -> None:
            super().on_open(connection)
            connection.write([b"go away"])
            connection.close()

    pair = connect(world, make=Rude)
    world.run_until(lambda: bool(pair.server.closed and pair.client.closed))
    assert pair.client.stream == b"go away"
    assert pair.client.closed == [None]


def test_a_broken_invariant_in_a_handler_is_fatal(world: World) -> None:
    pair = connect(world)

    def broken(_: bytes) -> None:
        raise InvariantBroken("two leaders")

    pair.server.on_piece = broken
    pair.client.link.write([frame(b"x"), frame(b"y")])
    world.run_until(lambda: bool(world.fatal))
    assert [str(error) for error in world.fatal] == ["two leaders"]
    assert pair.server.pieces == [b"x"]
    world.fatal.clear()
