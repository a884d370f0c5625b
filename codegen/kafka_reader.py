"""Emits `read_<message>_v<N>`: one flat function for each layout of a message.

Every fixed field, and the first byte of whatever length follows it, joins a run that is unpacked in
one call. A slice past the end is not checked where it is made: it leaves `pos` beyond `end`, from
where any further read raises, and where the last line of the function refuses it. That holds
because `pos` never moves back: lengths below zero are refused where they are read.
"""

from __future__ import annotations

from kafka_emitter import Emitter, Formats, format_bytes
from kafka_model import FIXED, Field, Message


class ReaderEmitter(Emitter):
    """Writes the body of one reader."""

    def __init__(self, message: Message, version: int, formats: Formats) -> None:
        super().__init__(formats)
        self.message = message
        self.version = version
        self.flexible = message.is_flexible(version)
        self._run: list[tuple[str, str]] = []

    def body(self) -> list[str]:
        """Returns the lines of the function, its first excepted."""
        with self.block("try:"):
            self.emit("end = len(buf)")
            start = len(self.lines)
            expression = self._struct(self.message.name)
            if any("left := left" in line for line in self.lines):
                self.emit(f"left = {self._elements_max}")
                self.lines.insert(start, self.lines.pop())
        with self.block("except MALFORMED as error:"):
            self.emit(f'raise cut_short("{self.message.name}") from error')
        # Clients leave bytes behind a request (librdkafka behind Metadata), and what is read from
        # their own payloads may be of a newer version; Kafka takes both.
        operator = "!=" if self.message.kind == "response" else ">"
        with self.block(f"if pos {operator} end:"):
            self.emit(f'raise wrong_length("{self.message.name}", pos, end)')
        self.emit(f"return {expression}")
        return self.lines

    @property
    def _elements_max(self) -> str:
        return "RESPONSE_ELEMENTS_MAX" if self.message.kind == "response" else "ELEMENTS_MAX"

    def _take(self, fmt: str, name: str) -> None:
        self._run.append((fmt, name))

    def _flush(self) -> None:
        run, self._run = self._run, []
        if not run:
            return
        fmt = "".join(f for f, _ in run)
        if fmt == "B":
            self.emit(f"{run[0][1]} = buf[pos]")
            self.emit("pos += 1")
            return
        unpack = self.formats.name("unpack_from", fmt)
        if len(run) == 1:
            self.emit(f"{run[0][1]} = {unpack}(buf, pos)[0]")
        else:
            self.emit(f"{', '.join(n for _, n in run)} = {unpack}(buf, pos)")
        self.emit(f"pos += {format_bytes(fmt)}")

    def _struct(self, struct: str) -> str:
        """Reads a struct; returns the expression that builds it."""
        values: dict[str, str] = {}
        for field in self.message.fields(struct, self.version):
            values[field.name] = self._field(field)
        if self.flexible:
            values |= self._tags(struct)
        self._flush()
        return self._constructor(struct, values)

    def _constructor(self, struct: str, values: dict[str, str]) -> str:
        arguments = [values.get(f.name, f.default_source) for f in self.message.structs[struct]]
        for field in reversed(self.message.structs[struct]):
            if field.name in values:
                break
            arguments.pop()
        return f"{struct}({', '.join(arguments)})"

    def _field(self, field: Field) -> str:
        """Reads a field; returns the name or expression that holds its value."""
        nullable = field.nullable_in(self.version)
        if field.is_array:
            return self._array(field, nullable)
        if field.element in FIXED:
            name = self.local(field.name)
            self._take(FIXED[field.element][0], name)
            return name
        if not field.is_struct:
            return self._text_or_bytes(field.element, self.local(field.name), nullable)
        if nullable:
            return self._nullable_struct(field)
        return self._struct(field.element)

    def _nullable_struct(self, field: Field) -> str:
        name = self.local(field.name)
        self._take("b", "n")
        self._flush()
        self.emit(f"{name}: {field.element} | None = None")
        with self.block("if n >= 0:"):
            expression = self._struct(field.element)
            self.emit(f"{name} = {expression}")
        return name

    def _text_or_bytes(self, element: str, name: str, nullable: bool) -> str:
        if self.flexible:
            self._compact_length(nullable, is_text=element == "string")
            length, null = "n - 1", "n == 0"
        else:
            self._take("h" if element == "string" else "i", "n")
            self._flush()
            with self.block(f"if n < {-1 if nullable else 0}:"):
                self.emit("bad_length(n)")
            length, null = "n", "n < 0"
        value = f"buf[pos : (pos := pos + {length})]"
        if element == "string":
            value = f'str({value}, "utf-8")'
        self.emit(f"{name} = None if {null} else {value}" if nullable else f"{name} = {value}")
        return name

    def _compact_length(self, nullable: bool, *, is_text: bool = False) -> None:
        """Reads a length plus one into `n`; 0 is null, and refused unless `nullable`."""
        self._take("B", "n")
        self._flush()
        with self.block("if n > 127:" if nullable else "if not 0 < n < 128:"):
            if is_text:
                helper = "text_tail" if nullable else "text_length_tail"
            else:
                helper = "uvarint_tail" if nullable else "length_tail"
            self.emit(f"n, pos = {helper}(buf, pos, n)")

    def _array(self, field: Field, nullable: bool) -> str:
        name = self.local(field.name)
        if self.flexible:
            self._compact_length(nullable)
        else:
            self._take("i", "n")
            self._flush()
            with self.block(f"if n < {-1 if nullable else 0}:"):
                self.emit("bad_length(n)")
        kind = f"list[{field.element_type}]"
        if not nullable:
            self._elements(field, name, f"{name}: {kind}")
            return name
        self.emit(f"{name}: {kind} | None = None")
        with self.block("if n:" if self.flexible else "if n >= 0:"):
            self._elements(field, name, name)
        return name

    def _elements(self, field: Field, name: str, target: str) -> None:
        if self.flexible:
            self.emit("n -= 1")
        least = self.message.element_bytes_min(field, self.version)
        if least < 1:
            raise ValueError(f"{field.name}: elements of no bytes make any count possible")
        bytes_min = f"n * {least}" if least > 1 else "n"
        with self.block(f"if {bytes_min} > end - pos or (left := left - n) < 0:"):
            self.emit("bad_count(n)")
        if field.element == "uuid":
            step = "range(pos, pos + 16 * n, 16)"
            self.emit(f"{target} = [bytes(buf[at : at + 16]) for at in {step}]")
            self.emit("pos += 16 * n")
        elif field.element in FIXED:
            fmt, size = FIXED[field.element][:2]
            self.emit(f'{target} = list(unpack_from(f">{{n}}{fmt}", buf, pos))')
            self.emit(f"pos += {f'{size} * ' if size > 1 else ''}n")
        else:
            self.emit(f"{target} = []")
            with self.block("for _ in range(n):"):
                if field.is_struct:
                    value = self._struct(field.element)
                else:
                    value = self._text_or_bytes(field.element, self.local("item"), False)
                self.emit(f"{name}.append({value})")

    def _tags(self, struct: str) -> dict[str, str]:
        """Reads the tagged fields; returns the names that hold the known ones."""
        tagged = self.message.tagged(struct, self.version)
        self._take("B", "n")
        self._flush()
        if not tagged:
            with self.block("if n:"):
                self.emit("pos = skip_tags(buf, pos, n)")
            return {}
        values = {field.name: self.local(field.name) for field in tagged}
        for field in tagged:
            self.emit(f"{values[field.name]}: {field.python_type} = {field.default_source}")
        with self.block("if n:"):
            with self.block("if n > TAGS_MAX:"):
                self.emit("bad_tags(n)")
            with self.block("for _ in range(n):"):
                self._one_tag(tagged, values)
        return values

    def _one_tag(self, tagged: list[Field], values: dict[str, str]) -> None:
        tag, stop = self.local("tag"), self.local("stop")
        self.emit(f"{tag}, pos = read_uvarint(buf, pos)")
        self.emit("n, pos = read_uvarint(buf, pos)")
        self.emit(f"{stop} = pos + n")
        for place, field in enumerate(tagged):
            with self.block(f"{'elif' if place else 'if'} {tag} == {field.tag}:"):
                value = self._field(field)
                self._flush()
                self.emit(f"{values[field.name]} = {value}")
        with self.block("else:"):
            self.emit(f"pos = {stop}")
        with self.block(f"if pos != {stop}:"):
            self.emit(f"bad_tag({tag})")
