"""Emits `write_<message>_v<N>`: appends the parts of a message to a list, in wire order.

Fixed fields that are neighbours are packed in one call. Bytes and records are appended as they are,
without a copy. Fields that a version does not have are left out; a null where the version allows
none is our own mistake and raises ValueError.
"""

from __future__ import annotations

from kafka_emitter import Emitter, Formats
from kafka_model import FIXED, Field, Message


class WriterEmitter(Emitter):
    """Writes the body of one writer."""

    def __init__(self, message: Message, version: int, formats: Formats) -> None:
        super().__init__(formats)
        self.message = message
        self.version = version
        self.flexible = message.is_flexible(version)
        self.default_structs: dict[str, None] = {}
        self._append = "append"
        self._run: list[tuple[str, str]] = []

    def body(self) -> list[str]:
        """Returns the lines of the function, its first excepted."""
        self.emit("append = out.append")
        self._struct(self.message.name, "m")
        self._flush()
        if len(self.lines) == 1:
            self.lines = ["    pass"]
        return self.lines

    def _take(self, fmt: str, value: str) -> None:
        self._run.append((fmt, value))

    def _flush(self) -> None:
        run, self._run = self._run, []
        if not run:
            return
        fmt = "".join(f for f, _ in run)
        values = [value for f, value in run if f != "x"]
        if not values:
            self.emit(f"{self._append}({literal(bytes(len(fmt)))})")
            return
        self.emit(f"{self._append}({self.formats.name('pack', fmt)}({', '.join(values)}))")

    def _struct(self, struct: str, owner: str) -> None:
        for field in self.message.fields(struct, self.version):
            self._field(field, owner, struct)
        if self.flexible:
            tagged = self.message.tagged(struct, self.version)
            if tagged:
                self._tags(tagged, owner)
            else:
                self._take("x", "")

    def _field(self, field: Field, owner: str, struct: str) -> None:
        source = f"{owner}.{field.name}"
        if field.element in FIXED and not field.is_array:
            self._take(FIXED[field.element][0], source)
            return
        value = source
        nullable = field.nullable_in(self.version)
        if not field.is_array and field.is_struct and not nullable:
            if field.python_type.endswith("None"):
                value = self._not_null(source, field, struct)
            self._struct(field.element, value)
            return
        if nullable:
            value = self._bind(source, field.name)
            self._nullable(field, value)
            return
        if field.python_type.endswith("None"):
            value = self._not_null(source, field, struct)
        self._present(field, value)

    def _bind(self, source: str, name: str) -> str:
        value = self.local(name)
        self.emit(f"{value} = {source}")
        return value

    def _not_null(self, source: str, field: Field, struct: str) -> str:
        """Binds a value that other versions allow to be null."""
        value = self._bind(source, field.name)
        with self.block(f"if {value} is None:"):
            self.emit(f'missing("{struct}.{field.name}")')
        return value

    def _nullable(self, field: Field, value: str) -> None:
        if field.is_struct and not field.is_array:
            null, present = b"\xff", ("b", "1")
        elif self.flexible:
            null, present = b"\0", None
        else:
            short = field.element == "string" and not field.is_array
            null, present = b"\xff" * (2 if short else 4), None
        self._flush()
        with self.block(f"if {value} is None:"):
            self.emit(f"{self._append}({literal(null)})")
        with self.block("else:"):
            if present:
                self._take(*present)
                self._struct(field.element, value)
            else:
                self._present(field, value)
            self._flush()

    def _present(self, field: Field, value: str) -> None:
        """Writes a string, bytes or array that is there."""
        if field.is_array:
            self._array(field, value)
        else:
            self._text_or_bytes(field.element, field.name, value)

    def _text_or_bytes(self, element: str, name: str, value: str) -> None:
        if element == "string":
            text = self.local(f"{name}_utf8")
            self.emit(f"{text} = {value}.encode()")
            value = text
        self._length(value, "h" if element == "string" else "i")
        self._flush()
        self.emit(f"{self._append}({value})")

    def _length(self, value: str, fmt: str) -> None:
        if self.flexible:
            self._flush()
            self.emit(
                f"{self._append}(UVARINTS[n] if (n := len({value}) + 1) < 128 else uvarint(n))"
            )
        else:
            self._take(fmt, f"len({value})")

    def _array(self, field: Field, value: str) -> None:
        if "." in value:
            value = self._bind(value, field.name)
        self._length(value, "i")
        self._flush()
        if field.element == "uuid":
            self.emit(f'{self._append}(b"".join({value}))')
        elif field.element in FIXED:
            fmt = FIXED[field.element][0]
            self.emit(f'{self._append}(pack(f">{{len({value})}}{fmt}", *{value}))')
        else:
            item = self.local("item")
            with self.block(f"for {item} in {value}:"):
                if field.is_struct:
                    self._struct(field.element, item)
                else:
                    self._text_or_bytes(field.element, "item", item)
                self._flush()

    def _tags(self, tagged: list[Field], owner: str) -> None:
        """Writes the tagged fields that differ from their defaults."""
        self._flush()
        values = [self._bind(f"{owner}.{field.name}", field.name) for field in tagged]
        conditions = [self._unset(field, v) for field, v in zip(tagged, values, strict=True)]
        several = len(tagged) > 1
        all_unset = " and ".join(f"({c})" if several else c for c in conditions)
        with self.block(f"if {all_unset}:"):
            self.emit(f"{self._append}({literal(bytes(1))})")
        with self.block("else:"):
            tags = self.local("tags")
            self.emit(f"{tags}: list[tuple[int, list[Buffer]]] = []")
            for field, value, unset in zip(tagged, values, conditions, strict=True):
                if several:
                    with self.block(f"if not ({unset}):"):
                        self._one_tag(field, value, tags)
                else:
                    self._one_tag(field, value, tags)
            self.emit(f"{self._sink()}.extend(tag_section({tags}))")

    def _sink(self) -> str:
        return "out" if self._append == "append" else self._append.removesuffix(".append")

    def _one_tag(self, field: Field, value: str, tags: str) -> None:
        part = self.local("part")
        self.emit(f"{part}: list[Buffer] = []")
        outer, self._append = self._append, f"{part}.append"
        if field.is_array or not (field.is_struct or field.element in FIXED):
            self._present(field, value)
        elif field.is_struct:
            self._struct(field.element, value)
        else:
            self._take(FIXED[field.element][0], value)
        self._flush()
        self._append = outer
        self.emit(f"{tags}.append(({field.tag}, {part}))")

    def _unset(self, field: Field, value: str) -> str:
        """Returns the condition under which a tagged field is left out."""
        default = field.default_source
        if field.absent_is_none:
            self.default_structs[field.element] = None
            return f"{value} is None or {value} == _DEFAULT_{field.element}"
        if default == "None":
            return f"{value} is None"
        if field.is_array or default in ("False", '""', "0"):
            return f"not {value}"
        return f"{value} == {default}"


def literal(value: bytes) -> str:
    """Returns a bytes literal in the project's quotes."""
    return 'b"' + "".join(f"\\x{byte:02x}" for byte in value) + '"'
