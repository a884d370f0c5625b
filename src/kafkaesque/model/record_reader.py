"""What keys and values of coordinators' records are made of.

Reading believes nothing: whatever is too short, too long or negative is an error, of the class that
the reader was given.
"""

from kafkaesque.model.errors import KafkaesqueError


def varint(value: int) -> bytes:
    """Return a number of up to 32 bits, seven to a byte, the lowest first."""
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


class RecordReader:
    """Takes one value after the other; every step is checked against what is left.

    Flexible (KIP-482) are lengths as varints, and tagged fields at the end of each structure.
    """

    __slots__ = ("_data", "_error", "_position", "is_flexible")

    def __init__(self, data: bytes, error: type[KafkaesqueError], *, flexible: bool) -> None:
        self._data = data
        self._error = error
        self._position = 0
        self.is_flexible = flexible

    def take(self, length: int) -> bytes:
        start = self._position
        if length < 0 or length > len(self._data) - start:
            raise self._bad(f"{length} bytes wanted, {len(self._data) - start} left")
        self._position = start + length
        return self._data[start : self._position]

    def int8(self) -> int:
        return int.from_bytes(self.take(1), "big", signed=True)

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >= 2**32:
                    raise self._bad("a varint beyond 32 bits")
                return value
        raise self._bad("a varint of more than five bytes")

    def nullable_string(self) -> str | None:
        length = self.varint() - 1 if self.is_flexible else self.int16()
        if length == -1:
            return None
        try:
            return self.take(length).decode()
        except UnicodeDecodeError as error:
            raise self._error(f"a string that is not UTF-8: {error}") from error

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise self._bad("null where a string must be")
        return text

    def byte_string(self) -> bytes:
        return self.take(self.varint() - 1 if self.is_flexible else self.int32())

    def count(self) -> int:
        """Return an array's length, which its bytes must at least be able to hold."""
        count = self.varint() - 1 if self.is_flexible else self.int32()
        if not 0 <= count <= len(self._data) - self._position:
            raise self._bad(f"an array of {count}")
        return count

    def nullable_count(self) -> int:
        """Return an array's length, 0 for null; its bytes must at least be able to hold it."""
        count = self.varint() - 1 if self.is_flexible else self.int32()
        if not -1 <= count <= len(self._data) - self._position:
            raise self._bad(f"an array of {count}")
        return max(count, 0)

    def tags(self) -> dict[int, bytes]:
        """Return the tagged fields, whose tags must rise."""
        fields: dict[int, bytes] = {}
        last = -1
        count = self.varint()
        if count > len(self._data) - self._position:
            raise self._bad(f"{count} tagged fields")
        for _ in range(count):
            tag = self.varint()
            if tag <= last:
                raise self._bad(f"tag {tag} after {last}")
            last = tag
            fields[tag] = self.take(self.varint())
        return fields

    def end(self) -> None:
        if self._position != len(self._data):
            raise self._bad(f"{len(self._data) - self._position} bytes left over")

    def _bad(self, what: str) -> KafkaesqueError:
        return self._error(f"{what}, at {self._position} of {len(self._data)}")
