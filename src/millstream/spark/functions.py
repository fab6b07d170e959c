"""Users' functions on Spark.

Owns making them known to a session. There a function gives a struct of a value and an error and
never fails itself: Spark computes Python's part of a query before the rest and for every row, even
for those that a condition keeps out, so only the SQL around a call may decide that a row fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf

from millstream.model.schema import spark_type
from millstream.model.user_functions import UserFunction
from millstream.spark.arrow import replace_timestamps
from millstream.sql.user_calls import SPARK_TRY, spark_name

_ZONED = pa.timestamp("us", "UTC")
_NAIVE = pa.timestamp("us")


def register_functions(spark: SparkSession, functions: Iterable[UserFunction]) -> None:
    """Make functions known to a session, in place of those of the same names."""
    make: Any = arrow_udf
    _register_try(spark)
    for function in functions:
        returns = f"struct<value: {spark_type(function.returns)}, error: string>"
        spark.udf.register(spark_name(function.name), make(_kernel(function), returns))


def _register_try(spark: SparkSession) -> None:
    """`__try(x)`: Spark has the expression, but no name for it in SQL."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    kind = jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.expressions.TryEval")
    tag = jvm.scala.reflect.ClassTag.apply(kind)
    base = jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistryBase
    builder = base.build(SPARK_TRY, jvm.scala.Option.empty(), tag)._2()
    session.sessionState().functionRegistry().createOrReplaceTempFunction(SPARK_TRY, builder, "built-in")


def _kernel(function: UserFunction) -> Callable[..., pa.Array]:
    def kernel(*columns: pa.Array) -> pa.Array:
        naive = [column.cast(replace_timestamps(column.type, _NAIVE)) for column in columns]
        values, errors = function.apply(naive)
        values = values.cast(replace_timestamps(values.type, _ZONED))
        return pa.StructArray.from_arrays([values, errors], names=["value", "error"])

    return kernel
