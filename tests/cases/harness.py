"""Plain-text conformance cases (`*.slt`): how they are read and how they are run.

A case is a list of blocks separated by blank lines. Lines that begin with `#` are comments. The
first line of a block says what it is, the rest is its body:

    boundary-independent          the final results may not depend on where epochs begin and end

    statement                     run SQL (one or more statements) that must succeed
    error CODE [line:column]      run SQL that must be refused with this code (at this place)
    insert STREAM [error CODE]    insert rows, one epoch's worth; a table or JSON lines
    lines STREAM                  insert undecoded lines in the stream's format
    delete TABLE [error CODE]     delete rows by key, in order with what is inserted
    epoch                         drain: process what has arrived
    clock SECONDS                 move processing time forward, then drain
    restart                       close the database and open it again

    query [ordered]               SQL, `----`, and the rows it must return (in any order)
    text                          SQL, `----`, and lines that must appear in the result, in order
    changes VIEW                  the changes of a view since the last look
    late STREAM                   all rows set aside in STREAM__late
    dead STREAM                   all rows set aside in STREAM__dead

Rows are written as a table: a header of column names, then a row a line, values separated by `|`.
`NULL`, `true`, `1`, `1.5`, `[1, 2]` are what they look like, `1.50d` is a decimal (in the input),
`12s` is the instant 12 seconds after 1970-01-01T00:00:00Z, `2024-01-02 10:15:00` is an instant in
UTC, anything else is text. The header of a SELECT must be exactly its columns; elsewhere it chooses
the columns to compare, never the rows.

What fails besides a wrong answer: a case without an expectation; changes of a view that the case
looks at which are not consumed before the next epoch or at the end; rows set aside that no `late`
or `dead` block has seen; an epoch whose accounting does not add up, or a gap between epochs; a
changelog that does not replay to the contents of its view.

The same case runs under several *drivers*: as written, by native kernels where they can; the same by
Spark SQL alone; with a restart before every epoch and
before what is looked at after it; and, where it is marked `boundary-independent`, with every
insert cut into several epochs and with all of them in as few epochs as possible. The last two
look at the results after the last step only.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import millstream as ms

Driver = Literal["as_written", "spark_sql", "restarts", "split", "merged"]
Row = tuple[str, ...]

EXPECTATIONS = ("error", "query", "text", "changes", "late", "dead")
STEPS = ("statement", "insert", "lines", "delete", "epoch", "clock", "restart")
READS = ("query", "text", "late", "dead")
ORIGIN = datetime(1970, 1, 1)
# Into how many epochs the `split` driver cuts an insert.
PIECES = 3

_DECIMAL = re.compile(r"-?\d+(\.\d+)?d")
_INSTANT = re.compile(r"-?\d+(\.\d+)?s")


class CaseError(AssertionError):
    """A case that does not hold, or that is not a case."""


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a case: `word`, what follows it on its line, the body and the expectation."""

    line: int
    word: str
    arguments: tuple[str, ...]
    body: tuple[str, ...]
    expected: tuple[str, ...]

    @property
    def sql(self) -> str:
        return "\n".join(self.body)

    def failure(self, message: str) -> CaseError:
        return CaseError(f"line {self.line}: {self.word} {' '.join(self.arguments)}: {message}")


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    blocks: tuple[Block, ...]
    boundary_independent: bool

    def drivers(self) -> tuple[Driver, ...]:
        always: tuple[Driver, ...] = ("as_written", "spark_sql", "restarts")
        return (*always, "split", "merged") if self.boundary_independent else always

    def watched(self) -> set[str]:
        """The views whose changes the case looks at."""
        return {block.arguments[0] for block in self.blocks if block.word == "changes"}

    def final_blocks(self) -> set[int]:
        """The places of the reads after which nothing happens any more."""
        last = max((i for i, block in enumerate(self.blocks) if block.word in STEPS), default=-1)
        return {i for i, block in enumerate(self.blocks) if i > last and block.word in READS}


# -- reading ---------------------------------------------------------------------------------------


def read_case(path: Path) -> Case:
    return parse_case(path.stem, path.read_text())


def parse_case(name: str, text: str) -> Case:
    """The blocks of a case; refuses what is not one."""
    blocks: list[Block] = []
    independent = False
    for line, lines in _paragraphs(text):
        word, *arguments = lines[0].split()
        if word == "boundary-independent":
            independent = True
            continue
        if word not in STEPS + EXPECTATIONS:
            raise CaseError(f"line {line}: unknown block {word!r}")
        body, expected = lines[1:], []
        if word in ("changes", "late", "dead"):
            body, expected = [], lines[1:]
        elif "----" in body:
            cut = body.index("----")
            body, expected = body[:cut], body[cut + 1 :]
        elif word in ("query", "text"):
            raise CaseError(f"line {line}: {word} needs ---- and what is expected")
        blocks.append(Block(line, word, tuple(arguments), tuple(body), tuple(expected)))
    case = Case(name, tuple(blocks), independent)
    if not any(block.word in EXPECTATIONS or "error" in block.arguments for block in blocks):
        raise CaseError(f"{name}: a case without an expectation proves nothing")
    if independent and not case.final_blocks():
        raise CaseError(f"{name}: boundary-independent, but nothing is looked at in the end")
    return case


def _paragraphs(text: str) -> Iterator[tuple[int, list[str]]]:
    start = 0
    lines: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.startswith("#"):
            continue
        if line.strip():
            start = start if lines else number
            lines.append(line.rstrip())
        elif lines:
            yield start, lines
            lines = []


def read_value(text: str) -> Any:
    """A value of an input table."""
    if text == "NULL":
        return None
    if _INSTANT.fullmatch(text):
        return ORIGIN + timedelta(seconds=float(text[:-1]))
    if _DECIMAL.fullmatch(text):
        return Decimal(text[:-1])
    try:
        return json.loads(text)
    except ValueError:
        return text


def read_rows(lines: tuple[str, ...]) -> list[dict[str, Any]]:
    """The rows of an `insert`: JSON lines, or a table with a header."""
    if lines and lines[0].lstrip().startswith("{"):
        return [json.loads(line) for line in lines]
    header, *rows = (_cells(line) for line in lines)
    return [dict(zip(header, map(read_value, row), strict=True)) for row in rows]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")]


def show_value(value: Any) -> str:
    """A value as a case writes it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case float():
            return repr(round(value, 9) + 0.0)
        case Decimal():
            return f"{value:f}"
        case datetime():
            return _show_instant(value)
        case date():
            return value.isoformat()
        case list():
            return f"[{', '.join(map(show_value, value))}]"
        case dict():
            return "{" + ", ".join(f"{key}: {show_value(item)}" for key, item in value.items()) + "}"
        case bytes():
            return f"0x{value.hex()}"
        case "":
            return "''"
        case _:
            return str(value)


def _show_instant(value: datetime) -> str:
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    if value.date() != ORIGIN.date():
        return value.isoformat(sep=" ")
    seconds = (value - ORIGIN) / timedelta(seconds=1)
    return f"{seconds:g}s" if seconds % 1 else f"{int(seconds)}s"


# -- running ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class Runner:
    """Runs one case under one driver. `reopen` opens the database of the case with a clock."""

    case: Case
    driver: Driver
    reopen: Callable[[ms.ManualClock], ms.Database]
    clock: ms.ManualClock = field(default_factory=lambda: ms.ManualClock(0))
    db: ms.Database = field(init=False)
    consumed: dict[str, int] = field(init=False, default_factory=dict)
    """How many changes of each watched view have been looked at."""
    seen: Counter[str] = field(init=False, default_factory=Counter)
    """How many rows of each `<stream>__late` and `<stream>__dead` have been looked at."""
    looked: bool = field(init=False, default=True)
    """Whether something was looked at since the last epoch."""

    def run(self) -> None:
        self.db = self.reopen(self.clock)
        try:
            final = self.case.final_blocks()
            for index, block in enumerate(self.case.blocks):
                if self.exact or block.word in STEPS or block.word == "error" or index in final:
                    self._step(block, index)
            self._check_consumed(None)
            self._check_set_aside()
            self._check_epochs()
            self._check_replay()
        finally:
            self.db.close()

    @property
    def exact(self) -> bool:
        """Whether epochs are where the case puts them."""
        return self.driver in ("as_written", "spark_sql", "restarts")

    def _step(self, block: Block, index: int) -> None:
        match block.word:
            case "statement":
                self.db.sql(block.sql)
            case "error":
                self._expect_error(block, lambda: self.db.sql(block.sql))
            case "insert" | "delete" as word if "error" in block.arguments:
                change = self.db.insert if word == "insert" else self.db.delete
                self._expect_error(block, lambda: change(block.arguments[0], read_rows(block.body)))
            case "insert":
                self._insert(block, read_rows(block.body), self.db.insert)
            case "lines":
                self._insert(block, list(block.body), self.db.insert_lines)
            case "delete":
                self._insert(block, read_rows(block.body), self.db.delete)
            case "epoch" | "clock":
                self._epoch(block, index)
            case "restart":
                self._restart()
            case _:
                self._look(block)

    def _insert(self, block: Block, rows: list[Any], insert: Callable[[str, Any], int]) -> None:
        if self.driver != "split":
            insert(block.arguments[0], rows)
            return
        size = -(-len(rows) // PIECES)
        for start in range(0, len(rows), size):
            insert(block.arguments[0], rows[start : start + size])
            self.db.drain()

    def _epoch(self, block: Block, index: int) -> None:
        self._check_consumed(block)
        if self.driver == "restarts":
            self._restart()
        if block.word == "clock":
            self.clock.advance(float(block.arguments[0]))
        elif self.driver == "merged" and any(later.word == "epoch" for later in self.case.blocks[index + 1 :]):
            return
        self.db.drain()
        self.looked = False

    def _restart(self) -> None:
        self.db.close()
        self.db = self.reopen(self.clock)

    def _expect_error(self, block: Block, action: Callable[[], object]) -> None:
        code = block.arguments[block.arguments.index("error") + 1] if "error" in block.arguments else block.arguments[0]
        try:
            action()
        except ms.MillstreamError as error:
            if error.code != code:
                raise block.failure(f"expected {code}, got {error}") from error
            place = next((a for a in block.arguments if re.fullmatch(r"\d+:\d+", a)), None)
            found = f"{error.position.line}:{error.position.column}" if error.position else "nowhere"
            if place is not None and found != place:
                raise block.failure(f"expected the error at {place}, but it points to {found}\n{error}") from error
        else:
            raise block.failure(f"expected {code}, but it was accepted")

    # -- looking ---------------------------------------------------------------------------------

    def _look(self, block: Block) -> None:
        if self.driver == "restarts" and not self.looked:
            self._restart()
        self.looked = True
        match block.word:
            case "query":
                result = self._result(block.sql)
                exact = block.sql.lstrip().upper().startswith(("SELECT", "WITH"))
                self._compare(block, result.columns, result.rows(), exact, "ordered" in block.arguments)
            case "text":
                self._expect_text(block)
            case "changes":
                view = block.arguments[0]
                changes = self.db.changes(view)
                fresh = changes.rows()[self.consumed.get(view, 0) :]
                self.consumed[view] = len(changes)
                self._compare(block, changes.columns, fresh, False, False)
            case "late" | "dead":
                relation = f"{block.arguments[0]}__{block.word}"
                result = self.db.query(f"SELECT * FROM {relation}")
                self.seen[relation] = len(result)
                self._compare(block, result.columns, result.rows(), False, False)

    def _result(self, sql: str) -> ms.Result:
        result = self.db.sql(sql)
        assert isinstance(result, ms.Result), f"{sql} returned {result!r}"
        return result

    def _compare(
        self, block: Block, columns: list[str], rows: list[dict[str, Any]], exact_header: bool, ordered: bool
    ) -> None:
        if not block.expected:
            if rows:
                raise block.failure("expected nothing, got\n" + _table(columns, [_shown(row, columns) for row in rows]))
            return
        header, *wanted = (tuple(_cells(line)) for line in block.expected)
        if exact_header and list(header) != columns:
            raise block.failure(f"expected the columns {', '.join(header)}, got {', '.join(columns)}")
        if unknown := [name for name in header if name not in columns]:
            raise block.failure(f"there is no column {', '.join(unknown)} among {', '.join(columns)}")
        got = [_shown(row, list(header)) for row in rows]
        if (got != wanted) if ordered else (Counter(got) != Counter(wanted)):
            raise block.failure(
                f"expected\n{_table(header, wanted)}\ngot\n{_table(header, got if ordered else _like(got, wanted))}"
            )

    def _expect_text(self, block: Block) -> None:
        lines = [line for row in self._result(block.sql).rows() for line in str(next(iter(row.values()))).splitlines()]
        rest = iter(lines)
        for wanted in block.expected:
            if not any(wanted.strip() in line for line in rest):
                raise block.failure(f"expected a line with\n  {wanted.strip()}\nin this order, in\n" + "\n".join(lines))

    # -- what always holds -----------------------------------------------------------------------

    def _check_consumed(self, block: Block | None) -> None:
        """No change of a watched view goes by unseen."""
        if not self.exact:
            return
        for view in sorted(self.case.watched()):
            try:
                changes = self.db.changes(view)
            except ms.MillstreamError as error:
                if error.code != "UNKNOWN_VIEW":
                    raise
                continue
            fresh = changes.rows()[self.consumed.get(view, 0) :]
            if fresh:
                where = f"before line {block.line}" if block else "at the end"
                columns = changes.columns
                rows = _table(columns, [_shown(row, columns) for row in fresh])
                raise CaseError(f"unconsumed changes of {view} {where}:\n{rows}")

    def _check_set_aside(self) -> None:
        """No row is set aside unseen."""
        names = [row["name"] for what in ("STREAMS", "TABLES") for row in self._result(f"SHOW {what}").rows()]
        for relation in (f"{name}__{kind}" for name in names for kind in ("late", "dead")):
            result = self.db.query(f"SELECT * FROM {relation}")
            if len(result) != self.seen[relation]:
                rows = [_shown(row, result.columns) for row in result.rows()]
                raise CaseError(f"rows in {relation} that no block has seen:\n{_table(result.columns, rows)}")

    def _check_epochs(self) -> None:
        """Epochs have no gaps, and every row of each is accounted for."""
        epochs = self._result("SHOW EPOCHS").rows()
        numbers = [epoch["epoch"] for epoch in epochs]
        if numbers != list(range(1, len(numbers) + 1)):
            raise CaseError(f"the epochs have gaps: {numbers}")
        source = {row["name"]: row["stream"] for row in self._result("SHOW VIEWS").rows()}
        for epoch in epochs:
            streams, views = json.loads(epoch["streams"]), json.loads(epoch["views"])
            for name, rows in streams.items():
                if rows["in"] != rows["decoded"] + rows["dead"]:
                    raise CaseError(f"epoch {epoch['epoch']}: stream {name} does not add up: {rows}")
            for name, rows in views.items():
                if name not in source:
                    continue
                decoded = streams.get(source[name], {"decoded": 0})["decoded"]
                if decoded != sum(rows.values()):
                    raise CaseError(f"epoch {epoch['epoch']}: {decoded} rows decoded, but view {name} has {rows}")

    def _check_replay(self) -> None:
        """The changelog of every view, replayed from zero, is the view."""
        for view in (row["name"] for row in self._result("SHOW VIEWS").rows()):
            keys = [row["column"] for row in self._result(f"DESCRIBE {view}").rows() if row["note"] == "key"]
            contents = self.db.query(f"SELECT * FROM {view}")
            replayed = replay(self.db.changes(view).rows(), contents.columns, keys)
            rows = Counter(_shown(row, contents.columns) for row in contents.rows())
            if replayed != rows:
                raise CaseError(
                    f"the changelog of {view} replays to\n{_table(contents.columns, replayed.elements())}\n"
                    f"but the view holds\n{_table(contents.columns, rows.elements())}"
                )


def replay(changes: list[dict[str, Any]], columns: list[str], keys: list[str]) -> Counter[Row]:
    """The rows that a changelog leaves behind. Upserts are told apart by the keys that are selected.

    A retraction of what is not there is an error: it would have come before what it retracts.
    """
    rows: Counter[Row] = Counter()
    keyed: dict[Row, Row] = {}
    for change in changes:
        row, key = _shown(change, columns), _shown(change, keys)
        match change["op"]:
            case "insert":
                rows[row] += 1
            case "retract":
                if not rows[row]:
                    raise CaseError(f"a retraction of what was not there: {change}")
                rows[row] -= 1
            case "upsert":
                keyed[key] = row
            case "delete":
                if keyed.pop(key, None) is None:
                    raise CaseError(f"a deletion of what was not there: {change}")
            case other:
                raise CaseError(f"an unknown op {other!r}")
    return +rows + Counter(keyed.values())


def _shown(row: dict[str, Any], columns: list[str]) -> Row:
    return tuple(show_value(row[name]) for name in columns)


def _like(rows: list[Row], wanted: list[Row]) -> list[Row]:
    """Rows in the order of what was wanted, the surplus last, so that a reader can compare."""
    left = list(rows)
    found = []
    for row in wanted:
        if row in left:
            left.remove(row)
            found.append(row)
    return found + left


def _table(header: Any, rows: Any) -> str:
    return "\n".join(f"  {' | '.join(row)}" for row in [tuple(header), *rows])
