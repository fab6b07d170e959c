"""Functions of the store in Python."""

from __future__ import annotations

import pytest

from millstream.duck.functions import edit_distance, initcap, java_double


@pytest.mark.parametrize(
    ("value", "text"),
    [
        # from the documentation of java.lang.Double.toString, and Java 21
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (123456.789, "123456.789"),
        (-1.5e300, "-1.5E300"),
        (2.0e-3, "0.002"),
        (4.9e-324, "4.9E-324"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_a_double_is_printed_as_java_does(value: float, text: str) -> None:
    assert java_double(value) == text


def test_words_begin_with_capitals_and_end_at_spaces() -> None:
    assert initcap("hello  wORLD-foo éA") == "Hello  World-foo Éa"
    assert initcap("") == ""


def test_letters_are_counted_not_bytes() -> None:
    assert edit_distance("é", "e") == 1
    assert edit_distance("", "\U0001f600z") == 2
    assert edit_distance("same", "same") == 0
