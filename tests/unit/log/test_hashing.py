import numpy as np
import pyarrow as pa
import pytest

from millstream.log.hashing import partition_numbers
from millstream.model.errors import MillstreamError

MANY = 1 << 31


GOLDEN_INTEGERS = [1296066594, 978496146, 1703921060, 1481953127, 1000198178]
GOLDEN_STRINGS = [661146869, 747820283, 282077715, 812980878, 1620654669, 112524082, 1000198178]
GOLDEN_FLOATS = [1296066594, 1440354650, 2094741285, 1000198178]


def numbers(array: pa.Array, partitions: int = MANY) -> list[int]:
    batch = pa.record_batch({"k": array})
    return [int(number) for number in partition_numbers(batch, ["k"], partitions)]


def test_the_hash_is_the_one_that_old_logs_were_written_with() -> None:
    assert numbers(pa.array([0, 1, -1, 2**40, None])) == GOLDEN_INTEGERS
    assert numbers(pa.array(["", "a", "abcdefgh", "abcdefghi", "ü" * 40, "x" * 300, None])) == GOLDEN_STRINGS
    assert numbers(pa.array([0.0, 1.5, float("nan"), None])) == GOLDEN_FLOATS


def test_equal_values_of_other_types_hash_alike() -> None:
    integers = numbers(pa.array([1, 2, None], type=pa.int64()))
    for kind in (pa.int8(), pa.int32(), pa.uint16(), pa.uint64()):
        assert numbers(pa.array([1, 2, None], type=kind)) == integers
    strings = numbers(pa.array(["a", "bb", None]))
    assert numbers(pa.array(["a", "bb", None], type=pa.large_string())) == strings
    assert numbers(pa.array(["a", "bb", None]).dictionary_encode()) == strings
    assert numbers(pa.array([b"a", b"bb", None])) == strings
    assert numbers(pa.array([0.0, -0.0])) == numbers(pa.array([0.0, 0.0], type=pa.float32()))
    seconds = pa.array([1, None], type=pa.timestamp("s"))
    assert numbers(seconds) == numbers(seconds.cast(pa.timestamp("us")))


def test_a_value_hashes_alike_alone_in_a_slice_and_among_others() -> None:
    values = ["", "a", "x" * 8, "x" * 9, "y" * 256, "z" * 257, "ß", None, "a"]
    together = numbers(pa.array(values))
    assert [numbers(pa.array([value], type=pa.string()))[0] for value in values] == together
    assert numbers(pa.array(["skipped", *values]).slice(1)) == together
    assert together[1] == together[-1]
    assert len(set(together)) == len(set(values))


def test_keys_spread_evenly() -> None:
    for array in (pa.array(range(20_000)), pa.array([f"user-{n}" for n in range(20_000)])):
        counts = np.bincount(numbers(array, 8), minlength=8)
        assert counts.min() > 2_300
        assert counts.max() < 2_700


def test_several_columns_make_one_key_in_their_order() -> None:
    batch = pa.record_batch({"a": [1, 2], "b": [2, 1]})
    both = partition_numbers(batch, ["a", "b"], MANY)
    assert both[0] != both[1]
    assert partition_numbers(batch, ["b", "a"], MANY)[0] == both[1]


def test_structs_dates_decimals_and_booleans_can_be_keys() -> None:
    for values in (
        pa.array([{"x": 1}, {"x": 2}, None]),
        pa.array([1, 2, None], type=pa.date32()),
        pa.array([1, 2, None], type=pa.decimal128(10, 2)),
        pa.array([True, False, None]),
        pa.array([None, None, None]),
    ):
        found = numbers(values)
        assert found[2] == numbers(pa.array([None], type=pa.int64()))[0]


def test_a_missing_or_unhashable_key_is_refused() -> None:
    with pytest.raises(MillstreamError, match="no column 'z'"):
        partition_numbers(pa.record_batch({"a": [1]}), ["z"], 2)
    with pytest.raises(MillstreamError) as caught:
        numbers(pa.array([[1], [2]]))
    assert caught.value.code == "BAD_KEY_TYPE"
