"""StreamSQL as a sqlglot dialect: Spark SQL with streams, windows and EMIT.

Owns the tokenizer and the generator; the parser is in `parser`. What the generator prints for a
query, the parser reads back as the same query. Must not change the meaning of Spark SQL.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp, transforms
from sqlglot.dialects.spark import Spark
from sqlglot.generator import Generator
from sqlglot.generators.spark import SparkGenerator
from sqlglot.tokenizer_core import Token, TokenType

from millstream.sql.parser import StreamParser
from millstream.sql.windows import ProcessingTime, WindowFunction


def _window_function_sql(generator: Generator, call: WindowFunction) -> str:
    separator = " PARTITION BY " if call.args.get("partitioned") else ", "
    arguments = ", ".join(generator.sql(argument) for argument in call.expressions)
    return f"{call.args['function']}({generator.sql(call, 'this')}{separator}{arguments})"


class StreamGenerator(SparkGenerator):
    """Prints queries."""

    TRANSFORMS = {
        **SparkGenerator.TRANSFORMS,
        WindowFunction: _window_function_sql,
        ProcessingTime: lambda _generator, _node: "PROCTIME()",
        # As Spark's, but for QUALIFY, which is left as it is: a subquery in its place gives `*` one more column.
        exp.Select: transforms.preprocess(
            [transforms.eliminate_distinct_on, transforms.unnest_to_explode, transforms.any_to_exists]
        ),
    }

    def version_sql(self, expression: exp.Version) -> str:
        if expression.name == "TIMESTAMP" and expression.text("kind") == "AS OF":
            return f"FOR SYSTEM_TIME AS OF {self.sql(expression, 'expression')}"
        return super().version_sql(expression)


class StreamSQL(Spark):
    """The dialect; its name in sqlglot is `streamsql`."""

    # Names are found in any case, but as the store compares them (`folded` of `millstream.model.schema`).
    ASCII_ONLY_NORMALIZATION = True

    class Tokenizer(Spark.Tokenizer):
        # No statement is swallowed as raw text: SHOW and EXPLAIN have a grammar here.
        COMMANDS: ClassVar[set[TokenType]] = set()

        # One timestamp type: an instant in UTC (see millstream.model.schema).
        KEYWORDS = {
            **Spark.Tokenizer.KEYWORDS,
            "TIMESTAMP": TokenType.TIMESTAMP,
            "TIMESTAMP_LTZ": TokenType.TIMESTAMP,
            "TIMESTAMP_NTZ": TokenType.TIMESTAMP,
        }

        def tokenize(self, sql: str) -> list[Token]:
            tokens = super().tokenize(sql)
            for token in tokens:
                # Comments can steer sqlglot (`/* sqlglot.meta … */`), and a canonical text has none.
                token.comments = []
            return tokens

    Parser = StreamParser

    Generator = StreamGenerator
