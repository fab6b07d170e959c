import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.sources.starts import NUMBERED, OffsetForm, read_start


@given(st.dictionaries(st.integers(0, 100), st.integers(0, 2**62), min_size=1))
def test_offsets_are_read_as_they_were_written(offsets: dict[int, int]) -> None:
    assert NUMBERED.read(NUMBERED.write(offsets)) == offsets
    assert read_start(NUMBERED.write(offsets)).offsets == offsets


@pytest.mark.parametrize("text", ["newest", "0", "0=", "a=1", "0=1,", "2024-13-01", ""])
def test_what_is_no_start(text: str) -> None:
    with pytest.raises(ValueError, match="write 'earliest'"):
        read_start(text)


def test_a_partition_is_named_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        read_start("0=1, 0=2")


def test_a_source_may_write_its_offsets_in_another_form() -> None:
    form = OffsetForm(
        "16/B374D848",
        lambda text: {0: int(text.split("/")[0], 16) << 32 | int(text.split("/")[1], 16)} if "/" in text else None,
        lambda offsets: f"{offsets[0] >> 32:X}/{offsets[0] & 0xFFFFFFFF:X}",
    )
    assert read_start("16/B374D848", form).offsets == {0: 0x16B374D848}
    with pytest.raises(ValueError, match="16/B374D848"):
        read_start("0=1", form)
