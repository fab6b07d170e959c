"""Results as Python's values."""

from __future__ import annotations

import pyarrow as pa
import pytest

import millstream as ms
from millstream.engine.surface.result import Result


def test_columns_of_one_name_are_all_there() -> None:
    result = Result(pa.Table.from_arrays([pa.array([1]), pa.array(["a"]), pa.array([2])], names=["n", "n_1", "n"]))
    assert result.rows() == [{"n": 1, "n_1": "a", "n_2": 2}]
    assert result.columns == ["n", "n_1", "n"]


def test_what_python_has_no_value_for_is_an_error_of_ours() -> None:
    result = Result(pa.table({"at": pa.array([-(10**17)], pa.timestamp("us"))}))
    with pytest.raises(ms.MillstreamError) as error:
        result.rows()
    assert error.value.code == "NOT_IN_PYTHON"
    assert result.to_arrow().num_rows == 1
