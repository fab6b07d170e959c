"""What was built, and what can be had of it: its StreamSQL, its rows, its plan.

Owns the way from a block to text. What a definition means is its StreamSQL and nothing else: it is
parsed by the same parser as a text, and run through the same door, so the plan cannot differ. Must
not change what was built: steps are for `relations`.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from millstream.api import Connection, Result
from millstream.builder.connections import SOURCE, explained
from millstream.builder.groups import settled
from millstream.builder.literals import Duration, option_text
from millstream.builder.queries import Block, compile_block
from millstream.model.errors import MillstreamError
from millstream.sql import parse_statement, render
from millstream.sql.render import render_emit, render_query
from millstream.sql.statements import DEFAULT_EMIT, CreateView, Emit


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Definition:
    """A query, when it publishes, and the database that it is for."""

    _block: Block
    _emit: Emit | None = None
    _connection: Connection | None = None

    def statement(
        self,
        name: str,
        *,
        retain: Duration | None = None,
        or_replace: bool = False,
        if_not_exists: bool = False,
        **options: object,
    ) -> CreateView:
        """The statement that creates a view of this relation, as the parser gives it.

        >>> ms.stream("bids").select("auction").statement("v", retain="7 days").options
        (('retain', '7 days'),)
        """
        given = {"retain": retain, **options}
        written = tuple((key, option_text(value)) for key, value in given.items() if value is not None)
        built = CreateView(name, self._query(), self._emit or DEFAULT_EMIT, written, or_replace, if_not_exists)
        statement = parse_statement(render(built), SOURCE)
        # Once more, so that places in the statement are places in its canonical text.
        statement = parse_statement(render(statement), SOURCE)
        assert isinstance(statement, CreateView)
        return statement

    def to_sql(self, name: str | None = None, **options: object) -> str:
        """The StreamSQL of the query, or with a name of the statement that creates its view.

        >>> print(ms.stream("bids").select("auction").to_sql("v", retain="7 days"))
        CREATE MATERIALIZED VIEW v WITH (
          retain = '7 days'
        ) AS
        SELECT
          auction
        FROM bids
        """
        if name is not None:
            return render(self.statement(name, **options))  # type: ignore[arg-type]
        query = render(parse_statement(render_query(self._query()), SOURCE))
        emit = self._emit or DEFAULT_EMIT
        return query if emit == DEFAULT_EMIT else f"{query}\n{render_emit(emit)}"

    def query(self) -> Result:
        """The rows now, as of the last committed epoch; for relations over views and tables.

        >>> db.stream("bids").group_by("auction").agg(n=ms.count()).create("totals")
        <View SELECT * FROM totals>
        >>> db.view("totals").filter(ms.col("n") > 1).query().rows()
        []
        """
        if self._emit is not None:
            raise MillstreamError("EMIT_IN_QUERY", "a query is answered once and has no trigger", hint="leave out emit")
        return self._connected("query").query(self.to_sql())

    def explain(self) -> str:
        """How the view would be maintained: what runs where, and what it keeps.

        >>> print(db.stream("bids").agg(n=ms.count()).explain().splitlines()[-1].strip())
        decode and scan: stream bids, watermark 0 seconds behind ts
        """
        return explained(self._connected("explain"), self.to_sql("query"))

    def __str__(self) -> str:
        return self.to_sql()

    def __repr__(self) -> str:
        if self._block.lacks_aggregates:
            return f"<{type(self).__name__} grouped by {', '.join(key.name for key in self._block.keys or ())}>"
        return f"<{type(self).__name__} {' '.join(self.to_sql().split())}>"

    def _query(self) -> exp.Query:
        return compile_block(settled(self._block, "a query"))

    def _connected(self, step: str) -> Connection:
        if self._connection is None:
            raise MillstreamError(
                "NOT_CONNECTED",
                f"{step} needs a database, and this relation belongs to none",
                hint='begin with db.stream("…"), or run db.sql(relation.to_sql("name"))',
            )
        return self._connection
