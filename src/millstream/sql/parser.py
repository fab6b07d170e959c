"""The statements of StreamSQL.

Owns which words begin a statement and what follows them; queries are read by sqlglot's own rules
and stay sqlglot expressions whose nodes know their place. A text that is no statement of
StreamSQL is refused, never passed on as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from millstream.model.errors import MillstreamError, Placed, did_you_mean
from millstream.sql import replacements
from millstream.sql.definitions import DefinitionGrammar
from millstream.sql.emit import EmitGrammar
from millstream.sql.equivalents import settle_aggregates
from millstream.sql.positions import place
from millstream.sql.statements import (
    DEFAULT_EMIT,
    CreateFunction,
    CreateSink,
    CreateStream,
    CreateTable,
    CreateView,
    Delete,
    Describe,
    Drop,
    Explain,
    Insert,
    Options,
    Rebuild,
    RelationKind,
    Select,
    SetOption,
    Show,
    ShowCreate,
    Statement,
    Subscribe,
)
from millstream.sql.windows import WindowGrammar, read_window_call

_QUERY_STARTS = {
    TokenType.SELECT,
    TokenType.WITH,
    TokenType.L_PAREN,
    TokenType.VALUES,
    TokenType.FROM,
    TokenType.TABLE,
}
_SHOWN: tuple[Literal["streams", "tables", "views", "sinks", "functions", "epochs"], ...] = (
    "streams",
    "tables",
    "views",
    "sinks",
    "functions",
    "epochs",
)
_KINDS = tuple(kind.upper() for kind in get_args(RelationKind))
VALUES_ALIAS = "_values"


class StreamParser(EmitGrammar, DefinitionGrammar, WindowGrammar):
    """Tokens of a script → statements."""

    SUPPORTS_TABLE_QUERY = True

    def statements(self, tokens: list[Token], sql: str, source: str) -> tuple[Statement, ...]:
        """Every statement of a script; empty ones are left out."""
        self.reset()
        self.sql = sql
        self.source = source
        self._chunks = [[]]
        for token in tokens:
            if token.token_type == TokenType.SEMICOLON:
                self._chunks.append([])
            else:
                self._chunks[-1].append(token)
        found: list[Statement] = []
        for chunk in self._chunks:
            self._advance_chunk()
            if chunk:
                found.append(self.statement())
                self._expect_end()
        return tuple(found)

    def statement(self) -> Statement:
        if self._match_set(_QUERY_STARTS, advance=False):
            return Select(self.query())
        first = self._curr
        rule = _STATEMENTS.get(first.text.upper()) if first.token_type != TokenType.IDENTIFIER else None
        if rule is None:
            raise self._unknown(first)
        self._advance()
        return rule(self)

    def _unknown(self, first: Token) -> MillstreamError:
        return self.refusal(
            "UNKNOWN_STATEMENT",
            f"{first.text!r} does not begin a statement of StreamSQL",
            hint=replacements.STATEMENTS.get(first.text.upper())
            or did_you_mean(first.text, [word.lower() for word in (*_STATEMENTS, "SELECT", "WITH")]),
            first=first,
        )

    def _expect_end(self) -> None:
        if not self._curr:
            return
        if self.at_emit():
            raise self.refusal(
                "BAD_EMIT",
                "EMIT belongs to CREATE MATERIALIZED VIEW",
                hint="a SELECT is answered once; a view is kept up to date and published",
            )
        self.raise_error("Unexpected token")

    # -- queries -----------------------------------------------------------------------------

    def query(self) -> exp.Query:
        first = self._curr
        if self._match(TokenType.VALUES, advance=False):
            query: exp.Expr | None = self._values_query()
        else:
            query = self._parse_ddl_select()
        if isinstance(query, exp.Values):
            query = self._values_to_select(query)
        while isinstance(query, exp.Subquery) and query.is_wrapper:
            query = query.this
        if not isinstance(query, exp.Query):
            self.raise_error("Expecting a query", first)
        self._settle(query, first)
        return query

    def _settle(self, query: exp.Query, first: Token) -> None:
        """What sqlglot's rules leave open in a query."""
        for select in query.find_all(exp.Select):
            if not select.expressions:
                raise self.refusal("SYNTAX_ERROR", "SELECT has nothing to select", first=first)
        for table in query.find_all(exp.Table):
            read_window_call(table, self.sql, self.source)
        settle_aggregates(query)

    def _values_query(self) -> exp.Expr | None:
        first = self._curr
        values = self._parse_derived_table_values()
        if values is None:
            return None
        widths = {len(row.expressions) for row in values.expressions}
        if len(widths) != 1:
            raise self.refusal("BAD_VALUES", "the rows of VALUES differ in length", first=first, last=self._prev)
        if self._match_set((TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT), advance=False):
            return self._parse_set_operations(self._values_to_select(values))
        return values

    def _parse_statement(self) -> exp.Expr | None:
        # sqlglot asks for a statement after WITH …; in StreamSQL only a query follows.
        if not self._match_set(_QUERY_STARTS, advance=False):
            self.raise_error("Expecting a query")
        return self._parse_ddl_select()

    # -- definitions -------------------------------------------------------------------------

    def create(self) -> CreateStream | CreateTable | CreateView | CreateFunction | CreateSink:
        or_replace = self._match_text_seq("OR", "REPLACE")
        if self._match_text_seq("STREAM"):
            return self._create_stream(or_replace)
        if self._match_text_seq("TABLE"):
            return self._create_table(or_replace)
        if self._match_text_seq("MATERIALIZED", "VIEW") or self._match_text_seq("VIEW"):
            return self._create_view(or_replace)
        if self._match_text_seq("FUNCTION"):
            return self._create_function(or_replace)
        if self._match_text_seq("SINK"):
            return self._create_sink(or_replace)
        raise self.refusal(
            "UNKNOWN_STATEMENT",
            f"cannot create {self.found()}",
            hint=replacements.OBJECTS.get(self._curr.text.upper())
            or did_you_mean(self._curr.text, ("stream", "table", "view", "materialized view", "function", "sink")),
        )

    def _if_not_exists(self) -> bool:
        return self._match_text_seq("IF", "NOT", "EXISTS")

    def _create_stream(self, or_replace: bool) -> CreateStream:
        if_not_exists = self._if_not_exists()
        name, position = self.relation_name("stream")
        parts = self.definition("stream")
        return CreateStream(
            name,
            parts.schema,
            parts.watermark,
            parts.correction,
            self.options(),
            or_replace,
            if_not_exists,
            position,
        )

    def _create_table(self, or_replace: bool) -> CreateTable:
        if_not_exists = self._if_not_exists()
        name, position = self.relation_name("table")
        name_token = self._prev
        parts = self.definition("table")
        if not parts.primary_key:
            raise self.refusal(
                "NO_PRIMARY_KEY",
                f"table {name!r} has no primary key",
                hint="mark a column PRIMARY KEY, or end the columns with PRIMARY KEY (a, b)",
                first=name_token,
            )
        options = self.options()
        return CreateTable(
            name, parts.schema, parts.primary_key, options, or_replace, if_not_exists, position, parts.watermark
        )

    def _create_view(self, or_replace: bool) -> CreateView:
        if_not_exists = self._if_not_exists()
        name, position = self.relation_name("view")
        options = self.options()
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expecting AS and a query")
        query = self.query()
        options = self.options(options)
        emit = self.emit() or DEFAULT_EMIT
        options = self.options(options)
        return CreateView(name, query, emit, options, or_replace, if_not_exists, position)

    def _create_function(self, or_replace: bool) -> CreateFunction:
        if_not_exists = self._if_not_exists()
        name, position = self.relation_name("function")
        arguments = self.definition("function").schema
        self.expect("RETURNS")
        returns = self.type_of(f"the result of {name}")
        source = None
        if self._match(TokenType.ALIAS):
            if not self._match_set((TokenType.STRING, TokenType.RAW_STRING)):
                self.raise_error("Expecting 'module:name'")
            source = self._prev.text
        return CreateFunction(name, arguments, returns, source, or_replace, if_not_exists, position)

    def _create_sink(self, or_replace: bool) -> CreateSink:
        if or_replace:
            raise self.refusal(
                "SYNTAX_NOT_ALLOWED", "a sink is not replaced", hint="drop it, then create it", first=self._prev
            )
        if_not_exists = self._if_not_exists()
        name, position = self.relation_name("sink")
        if not self._match(TokenType.FROM):
            self.raise_error("Expecting FROM and a view")
        view, _ = self.relation_name("view")
        given: Options = ()
        if self._match(TokenType.INTO):
            self.expect("TOPIC")
            topic, _ = self.relation_name("topic")
            given = (("connector", "topic"), ("topic", topic))
        return CreateSink(name, view, self.options(given), if_not_exists, position)

    def drop(self) -> Drop:
        self._match_text_seq("MATERIALIZED") and self._match_text_seq("VIEW", advance=False)
        kind = self._relation_kind()
        if_exists = self._match_text_seq("IF", "EXISTS")
        name, position = self.relation_name(kind)
        return Drop(kind, name, if_exists, position)

    def alter(self) -> Rebuild:
        if not self._match_text_seq("MATERIALIZED", "VIEW") and not self._match_text_seq("VIEW"):
            raise self.refusal(
                "UNKNOWN_STATEMENT",
                f"cannot alter {self.found()}",
                hint="only a view can be altered: ALTER MATERIALIZED VIEW name REBUILD",
            )
        name, position = self.relation_name("view")
        if not self._match_text_seq("REBUILD"):
            raise self.refusal(
                "UNKNOWN_STATEMENT",
                f"cannot alter a view with {self.found()}",
                hint="write REBUILD; another definition is given with CREATE OR REPLACE MATERIALIZED VIEW",
            )
        return Rebuild(name, position)

    def _relation_kind(self) -> RelationKind:
        for kind in get_args(RelationKind):
            if self._match_text_seq(kind.upper()):
                found: RelationKind = kind
                return found
        raise self.refusal(
            "UNKNOWN_STATEMENT",
            f"cannot drop {self.found()}",
            hint=did_you_mean(self._curr.text, get_args(RelationKind)),
        )

    # -- the rest ----------------------------------------------------------------------------

    def set_option(self) -> SetOption:
        first = self._curr
        name = self._parse_id_var(any_token=True)
        if name is None:
            self.raise_error("Expecting the name of a setting")
        if not self._match(TokenType.EQ):
            self.raise_error("Expecting =")
        value = self._parse_string() or self._parse_id_var(any_token=True)
        if value is None:
            self.raise_error("Expecting a value in quotes")
        return SetOption(name.name.lower(), value.name.lower(), self.span(first))

    def show(self) -> Show | ShowCreate:
        if self._match_text_seq("CREATE"):
            self._optional_kind()
            name, position = self.relation_name("stream, table, view or function")
            return ShowCreate(name, position)
        for what in _SHOWN:
            if self._match_text_seq(what.upper()):
                return Show(what)
        raise self.refusal(
            "UNKNOWN_STATEMENT",
            f"cannot show {self.found()}",
            hint=did_you_mean(self._curr.text, (*_SHOWN, "create")),
        )

    def _optional_kind(self) -> None:
        """Skip the kind in `SHOW CREATE TABLE users`, but not a relation that is called `table`."""
        if not self._match_text_seq("MATERIALIZED", "VIEW") and self._next:
            self._match_texts(_KINDS)

    def describe(self) -> Describe:
        self._optional_kind()
        name, position = self.relation_name("stream, table or view")
        return Describe(name, position)

    def explain(self) -> Explain:
        first = self._curr
        if self._match(TokenType.CREATE):
            target: str | CreateView | CreateStream | CreateTable | CreateFunction | CreateSink | Select = self.create()
            if not isinstance(target, CreateView):
                raise self.refusal("UNKNOWN_STATEMENT", "only views and queries have a plan", first=first)
            return Explain(target, target.position)
        if self._match_set(_QUERY_STARTS, advance=False):
            return Explain(Select(self.query()), self.span(first))
        name, position = self.relation_name("view")
        return Explain(name, position)

    def insert(self) -> Insert:
        if not self._match(TokenType.INTO):
            self.raise_error("Expecting INTO")
        self._match(TokenType.TABLE)
        name, position = self.relation_name("stream or table")
        columns: list[tuple[str, Token]] = []
        if self._match(TokenType.L_PAREN, advance=False) and self._next.token_type not in _QUERY_STARTS:
            columns = self.wrapped_column_names()
        seen: set[str] = set()
        for column, token in columns:
            if column.lower() in seen:
                raise self.refusal("DUPLICATE_COLUMN", f"column {column!r} is named twice", first=token)
            seen.add(column.lower())
        first = self._curr
        query = self.query()
        row = query.find(exp.Tuple) if is_values(query) else None
        width = len(row.expressions) if row is not None else len(columns)
        if columns and width != len(columns):
            raise self.refusal(
                "BAD_VALUES",
                f"{len(columns)} columns are named but rows have {width} values",
                first=first,
                last=self._prev,
            )
        named = tuple(Placed.at(column, self.span(token)) for column, token in columns)
        return Insert(name, named, query, position)

    def delete(self) -> Delete:
        if not self._match(TokenType.FROM):
            self.raise_error("Expecting FROM")
        first = self._curr
        name, position = self.relation_name("table")
        table = exp.Table(this=exp.to_identifier(name))
        place(table, first, first)
        alias = self._parse_table_alias()
        if isinstance(alias, exp.TableAlias):
            if alias.columns:
                raise self.refusal("SYNTAX_ERROR", "the table of a DELETE keeps the names of its columns", first=first)
            table.set("alias", alias)
        query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=table))
        where = self._parse_where()
        if where is not None:
            query.set("where", where)
        self._settle(query, first)
        return Delete(name, query, position)

    def subscribe(self) -> Subscribe:
        if self._next:
            self._match_text_seq("TO")
        name, position = self.relation_name("view")
        from_epoch = 0
        if self._match(TokenType.FROM):
            self.expect("EPOCH")
            number = self._curr
            if not self._match(TokenType.NUMBER) or not number.text.isdigit():
                self.raise_error("Expecting the number of an epoch", number)
            from_epoch = int(number.text)
        return Subscribe(name, from_epoch, position)


def is_values(query: exp.Query) -> bool:
    """Whether a query is nothing but `VALUES …`."""
    from_ = query.args.get("from_")
    return (
        isinstance(query, exp.Select)
        and len(query.expressions) == 1
        and isinstance(query.expressions[0], exp.Star)
        and isinstance(from_, exp.From)
        and isinstance(from_.this, exp.Values)
        and from_.this.alias == VALUES_ALIAS
        and not any(query.args.get(key) for key in query.args if key not in ("expressions", "from_"))
    )


_STATEMENTS: dict[str, Callable[[StreamParser], Statement]] = {
    "CREATE": StreamParser.create,
    "ALTER": StreamParser.alter,
    "DROP": StreamParser.drop,
    "SET": StreamParser.set_option,
    "SHOW": StreamParser.show,
    "DESCRIBE": StreamParser.describe,
    "DESC": StreamParser.describe,
    "EXPLAIN": StreamParser.explain,
    "INSERT": StreamParser.insert,
    "DELETE": StreamParser.delete,
    "SUBSCRIBE": StreamParser.subscribe,
}
