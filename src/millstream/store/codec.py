"""Commands as bytes: what a backup keeps and a standby is sent.

`encode` looks at one command. A `Decoder` follows the sequence from its beginning: commits name the streams and views
that definitions before them described. What always holds: a decoded command equals the one that was encoded. Decoding
needs no Spark: a view travels as its statement and the types that were asked to plan it, and is planned again. The
Python of users' functions does not travel.

The form: one byte for the format, four bytes for the length of a JSON text, the text. Then come the blobs that the text
numbers: Arrow IPC streams, each after eight bytes for its length. Numbers are big-endian.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import pyarrow as pa

from millstream.model.errors import MillstreamError
from millstream.model.lateness import Lateness
from millstream.model.progress import Progress
from millstream.model.schema import Column, Schema
from millstream.plan.nodes import AggregateView, AppendView, Part, QueryView, Stream, ViewPlan
from millstream.plan.queries import plan_query
from millstream.plan.relations import Relation, stream_relation, view_relation
from millstream.plan.tables import TableRules
from millstream.sql import bind_calls, parse_statement
from millstream.sql import statements as sql
from millstream.store import commands
from millstream.store.commands import Command

FORMAT = 1
_COMMANDS: tuple[type[Any], ...] = (
    commands.CreateStream,
    commands.ChangeStream,
    commands.CreateView,
    commands.ChangeView,
    commands.Drop,
    commands.CreateFunction,
    commands.DropFunction,
    commands.CreateSink,
    commands.DropSink,
    commands.Commit,
    commands.Acknowledge,
    commands.Retain,
)
_DATA: tuple[type[Any], ...] = (
    commands.StreamPart,
    commands.ViewPart,
    commands.QueryPart,
    commands.Swap,
    commands.Failure,
    Progress,
    Lateness,
    Stream,
    Schema,
    Column,
    TableRules,
    sql.Watermark,
    sql.ClockCorrection,
)
"""Parts of commands, besides values, Arrow, streams and plans."""
_CLASSES = {class_.__name__: class_ for class_ in (*_COMMANDS, *_DATA)}
_LENGTH, _BLOB_LENGTH = 4, 8


def encode(command: Command) -> bytes:
    """A command as bytes."""
    blobs: list[bytes] = []
    encoding = _Encoding(blobs)
    if isinstance(command, commands.CreateStream):
        # Everywhere else a stream is its name.
        content = encoding.fields(command) | {"stream": encoding.fields(command.stream)}
    else:
        content = encoding.fields(command)
    text = json.dumps(content, separators=(",", ":")).encode()
    parts = [bytes([FORMAT]), len(text).to_bytes(_LENGTH, "big"), text]
    for blob in blobs:
        parts += [len(blob).to_bytes(_BLOB_LENGTH, "big"), blob]
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class _Encoding:
    """Values as JSON. What JSON has no form for is an object with one key, or with `is`, the class of its data."""

    blobs: list[bytes]

    def fields(self, value: Any) -> dict[str, Any]:
        return {"is": type(value).__name__} | {
            each.name: self.value(getattr(value, each.name)) for each in fields(value)
        }

    def value(self, value: Any) -> Any:
        match value:
            case None | bool() | int() | float() | str():
                return value
            case pa.Table():
                return {"rows": self._blob(value.schema, value.to_batches())}
            case pa.Schema():
                return {"columns": self._blob(value)}
            case pa.DataType():
                return {"type": self._blob(pa.schema([("", value)]))}
            case Stream():
                return {"stream": value.name}
            case ViewPlan():
                return {"plan": value.view.name, "types": self.value(value.types)}
            case AppendView() | AggregateView() | QueryView():
                return {"part": value.name}
            case Mapping():
                return {"map": [[self.value(key), self.value(each)] for key, each in value.items()]}
            case Sequence():
                return [self.value(each) for each in value]
            case _ if is_dataclass(value) and type(value).__name__ in _CLASSES:
                return self.fields(value)
        raise AssertionError(f"a command has a {type(value).__name__}")

    def _blob(self, schema: pa.Schema, batches: Sequence[pa.RecordBatch] = ()) -> int:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as stream:
            for batch in batches:
                stream.write_batch(batch)
        self.blobs.append(sink.getvalue().to_pybytes())
        return len(self.blobs) - 1


@dataclass(slots=True)
class Decoder:
    """Decodes the commands of one sequence, in order from the first on."""

    _streams: dict[str, Stream] = field(default_factory=dict)
    _plans: dict[str, ViewPlan] = field(default_factory=dict)
    _parts: dict[str, Part] = field(default_factory=dict)
    _functions: dict[str, tuple[pa.DataType, ...]] = field(default_factory=dict)

    def decode(self, data: bytes) -> Command:
        """The next command."""
        if not data or data[0] != FORMAT:
            raise MillstreamError(
                "COMMAND_VERSION",
                f"a command has format {data[0] if data else 'none'}, this release reads {FORMAT}",
                hint="decode it with the release that encoded it",
            )
        try:
            content, blobs = _taken_apart(data)
            command = self._command(content, blobs)
        except (LookupError, TypeError, ValueError, pa.ArrowException) as error:
            raise _damaged(f"{type(error).__name__}: {error}") from None
        self._follow(command)
        return command

    # -- values --------------------------------------------------------------------------------

    def _command(self, content: Any, blobs: Sequence[bytes]) -> Command:
        if _CLASSES[content["is"]] not in _COMMANDS:
            raise _damaged(f"it is a {content['is']}")
        if content["is"] == "CreateStream":
            content["stream"] = {"defined": content["stream"]}
        command: Command = self._object(content, blobs)
        return command

    def _object(self, content: Mapping[str, Any], blobs: Sequence[bytes]) -> Any:
        class_ = _CLASSES[content["is"]]
        values = {name: self._value(value, blobs) for name, value in content.items() if name != "is"}
        if class_ in (commands.CreateView, commands.ChangeView, commands.Swap):
            values |= self._planned(values)
        return class_(**values)

    def _planned(self, values: Mapping[str, Any]) -> dict[str, ViewPlan]:
        """The plans of a command that defines a view."""
        if "plan" in values:
            whole = self._plan(values["statement"], values["plan"])
            return {"plan": whole.sharing(values["built"]) if values["built"] else whole}
        return {"old": self._plans[values["old"].name], "new": self._plan(values["statement"], values["new"])}

    def _value(self, value: Any, blobs: Sequence[bytes]) -> Any:
        match value:
            case list():
                return tuple(self._value(each, blobs) for each in value)
            case {"is": _}:
                return self._object(value, blobs)
            case {"map": pairs}:
                return {self._value(key, blobs): self._value(each, blobs) for key, each in pairs}
            case {"rows": blob}:
                return pa.ipc.open_stream(blobs[blob]).read_all()
            case {"columns": blob}:
                return pa.ipc.open_stream(blobs[blob]).schema
            case {"type": blob}:
                return pa.ipc.open_stream(blobs[blob]).schema.field(0).type
            case {"defined": stream}:
                return self._object(stream, blobs)
            case {"stream": name}:
                return self._streams[name]
            case {"part": name}:
                return self._parts[name]
            case {"plan": name, "types": types}:
                return _Unplanned(name, self._value(types, blobs))
            case dict():
                raise _damaged(f"it has {sorted(value)}")
        return value

    # -- planning ------------------------------------------------------------------------------

    def _plan(self, text: str, unplanned: _Unplanned) -> ViewPlan:
        create = parse_statement(text)
        if not isinstance(create, sql.CreateView):
            raise _damaged(f"no view is defined by {text}")
        query = bind_calls(create.query, self._functions)
        typer = _Recorded(unplanned.types)
        return plan_query(replace(create, name=unplanned.name, query=query), self._relation, typer.types_of)

    def _relation(self, name: str) -> Relation | None:
        for known, stream in self._streams.items():
            if known.lower() == name.lower():
                return stream_relation(stream)
        for known, plan in self._plans.items():
            if known.lower() == name.lower():
                return view_relation(plan.view)
        return None

    # -- following -----------------------------------------------------------------------------

    def _follow(self, command: Command) -> None:
        """Know what is there after a command."""
        match command:
            case commands.CreateStream():
                self._forget([command.instead_of] if command.instead_of is not None else [])
                self._streams[command.stream.name] = command.stream
            case commands.CreateView():
                self._forget(command.instead_of)
                self._know(command.plan)
            case commands.ChangeView():
                self._forget(command.ending)
                self._know(command.new)
            case commands.Drop():
                self._forget(command.names)
            case commands.CreateFunction():
                create = parse_statement(command.statement)
                assert isinstance(create, sql.CreateFunction)
                self._functions[command.name.lower()] = tuple(column.type for column in create.arguments.columns)
            case commands.DropFunction():
                self._functions.pop(command.name.lower(), None)
            case commands.Commit():
                for swap in command.swaps:
                    self._forget(swap.built[-1:])
                    self._know(swap.new)

    def _know(self, plan: ViewPlan) -> None:
        self._plans[plan.view.name] = plan
        self._parts = {part.name: part for known in self._plans.values() for part in known.parts}

    def _forget(self, names: Sequence[str]) -> None:
        for name in names:
            self._streams.pop(name, None)
            self._plans.pop(name, None)
        self._parts = {part.name: part for plan in self._plans.values() for part in plan.parts}


@dataclass(frozen=True, slots=True)
class _Unplanned:
    """A plan as it travels."""

    name: str
    types: Mapping[str, Mapping[str, pa.DataType]]


@dataclass(frozen=True, slots=True)
class _Recorded:
    """Answers what was asked when a view was planned first."""

    types: Mapping[str, Mapping[str, pa.DataType]]

    def types_of(self, stream: Stream, sqls: Sequence[str]) -> list[pa.DataType]:
        return [self.types[stream.name][each] for each in sqls]


def _taken_apart(data: bytes) -> tuple[Any, list[bytes]]:
    at = 1 + _LENGTH
    end = at + int.from_bytes(data[1:at], "big")
    content = json.loads(data[at:end])
    blobs = list(_blobs(data, end))
    return content, blobs


def _blobs(data: bytes, at: int) -> Iterator[bytes]:
    while at < len(data):
        start = at + _BLOB_LENGTH
        at = start + int.from_bytes(data[at:start], "big")
        if at > len(data):
            raise ValueError("it ends early")
        yield data[start:at]


def _damaged(detail: str) -> MillstreamError:
    return MillstreamError("BAD_COMMAND", "a command cannot be decoded", detail=detail)
