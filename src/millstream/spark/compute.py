"""Spark as what computes the deltas of a database's views: the implementation of `Compute`.

Owns what the lanes of a database share: sessions, forms of views for the kernel, the choice of the
kernel. Must not start Spark before something is asked that only Spark can answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from millstream.kernel.agreement import NotNativeError
from millstream.kernel.handover import open_directory
from millstream.kernel.native import NativeView
from millstream.kernel.program import partners
from millstream.model.recovery import again
from millstream.model.schema import Schema
from millstream.model.settings import Kernel, SparkSettings
from millstream.model.user_functions import UserFunction
from millstream.plan.compute import LaneName
from millstream.plan.nodes import Stream, View
from millstream.spark.epoch import delta_schema, expression_types
from millstream.spark.lanes import KernelChoice, SparkLane
from millstream.spark.native import NativeForms
from millstream.spark.sessions import Sessions
from millstream.spark.streaming import StreamingSource


class SparkCompute:
    def __init__(self, settings: SparkSettings, kernel: Kernel, directory: Path) -> None:
        """`directory` is the database's: what belongs to Spark is in a directory of its own there."""
        self._sessions = Sessions(settings, directory / "spark" / "logs")
        # Executors of a cluster do not see the files of this machine.
        is_local = settings.master.startswith("local")
        self.forms = NativeForms(open_directory(directory / "spark" / "handover") if is_local else None)
        self._choice = KernelChoice(kernel)
        sessions, forms, choice = self._sessions, self.forms, self._choice
        self._lanes: dict[LaneName, SparkLane] = {
            "present": SparkLane(sessions, sessions.live, forms, choice, 0),
            "past": SparkLane(sessions, sessions.live, forms, choice, 1),
            "beside": SparkLane(sessions, sessions.beside, forms, choice, 0),
        }

    def begin(self) -> None:
        self._sessions.begin()

    def warm_up(self) -> None:
        self.session()

    def session(self) -> SparkSession:
        """The session of live epochs."""
        return self._sessions.live()

    # -- definitions ---------------------------------------------------------------------------

    def types(self, stream: Stream, sqls: Sequence[str]) -> list[pa.DataType]:
        return again(lambda: expression_types(self.session(), stream, sqls)) if sqls else []

    def schema(self, stream: Stream, view: View) -> pa.Schema:
        schema = again(lambda: delta_schema(self.session(), stream, view))
        self.forms.form(self.session(), stream, view, schema)
        return schema

    def keep(self, views: Iterable[View]) -> None:
        self.forms.keep(views)

    def sharing(self, part: View, stream: Stream, live: Sequence[View]) -> list[str] | str:
        if self._choice.kernel == "spark":
            return "kernel is set to 'spark'"
        spark = self.session()
        form = self.forms.form(spark, stream, part)
        if isinstance(form, NotNativeError):
            return str(form)
        others = [self.forms.form(spark, stream, view) for view in live if view.name != part.name]
        return partners(form, [other for other in others if isinstance(other, NativeView)])

    def use_functions(self, functions: Sequence[UserFunction]) -> None:
        self._sessions.use_functions(functions)

    # -- rows ----------------------------------------------------------------------------------

    def use_kernel(self, kernel: Kernel) -> None:
        self._choice.kernel = kernel

    def lane(self, name: LaneName) -> SparkLane:
        return self._lanes[name]

    def streaming(
        self, format_: str, path: str | None, options: Mapping[str, str], schema: Schema, checkpoint: Path
    ) -> StreamingSource:
        return StreamingSource(self.session, format_, path, options, schema, checkpoint)

    def close(self) -> None:
        """Spark stays up for the next database."""
        self.forms.close()
