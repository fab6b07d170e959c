"""How the store converts a value from one type to another as Spark does.

Owns the forms of CAST and TRY_CAST. The type that is converted is known to the store alone, so a
form asks `typeof`, which is a constant by the time the store binds the query.
"""

from __future__ import annotations

import re

from sqlglot import exp

from millstream.duck.forms import failing, refusing

_INTEGERS = (exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT)
_TEXTS = (exp.DType.TEXT, exp.DType.VARCHAR, exp.DType.CHAR)
_REAL = "typeof(⟨0⟩) IN ('DOUBLE', 'FLOAT')"
_DECIMAL = "starts_with(typeof(⟨0⟩), 'DECIMAL')"
_STRING = "typeof(⟨0⟩) = 'VARCHAR'"
_TEXT = "CAST(⟨0⟩ AS VARCHAR)"
_DOUBLE = "CAST(⟨0⟩ AS DOUBLE)"
# What Spark trims off a text before it reads a number or a time: everything up to the space.
_BLANKS = "regexp_replace(CAST(⟨0⟩ AS VARCHAR), '^[\\x00-\\x20]+|[\\x00-\\x20]+$', '', 'g')"
_SCALARS = (
    "typeof(⟨0⟩) NOT IN ('BOOLEAN', 'TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'HUGEINT', 'FLOAT', 'DOUBLE', "
    "'VARCHAR', 'BLOB', 'DATE', 'TIMESTAMP', '\"NULL\"') AND NOT starts_with(typeof(⟨0⟩), 'DECIMAL')"
)
_DATE = r"([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?"


def cast_form(target: exp.DataType, name: str, *, attempt: bool) -> str | None:
    """The form of a cast to a type, called `name` by the store; None where DuckDB's own cast will do.

    With `attempt`, what cannot be converted is NULL.
    """
    form = _form(target, name)
    if form is None or not attempt:
        return form
    return f"TRY({form})"


def literal_fits(value: exp.Literal, target: exp.DataType) -> bool:
    """Whether both engines convert a constant alike, or both refuse it."""
    if target.this in _INTEGERS:
        return re.fullmatch(r"[+-]?\d+", value.name) is not None
    return target.this not in (exp.DType.BINARY, exp.DType.BOOLEAN)


def _form(target: exp.DataType, name: str) -> str | None:
    if target.this in _INTEGERS:
        return _integer(name)
    if target.this in _TEXTS:
        return _text()
    match target.this:
        case exp.DType.FLOAT:
            bound = f"CASE WHEN {_DOUBLE} > 0 THEN CAST('inf' AS REAL) ELSE CAST('-inf' AS REAL) END"
            return (
                f"CASE WHEN typeof(⟨0⟩) = 'DOUBLE' AND isfinite({_DOUBLE}) AND abs({_DOUBLE}) > 3.4028235677973366e38 "
                f"THEN {bound} WHEN {_STRING} THEN CAST({_number('REAL')} AS REAL) ELSE CAST(⟨0⟩ AS REAL) END"
            )
        case exp.DType.DOUBLE:
            return f"CASE WHEN {_STRING} THEN {_number('DOUBLE')} ELSE {_DOUBLE} END"
        case exp.DType.DECIMAL:
            # By its decimal digits, as Java reads a DOUBLE.
            fits = f"abs({_DOUBLE}) < 1e{_whole_digits(target)}"
            digits = (
                f"CASE WHEN ⟨0⟩ IS NULL OR NOT isfinite({_DOUBLE}) THEN NULL WHEN {fits} "
                f"THEN CAST(CAST({_DOUBLE} AS VARCHAR) AS {name}) ELSE {failing(f'the number is no {name}')} END"
            )
            return f"CASE WHEN {_REAL} THEN {digits} ELSE CAST(⟨0⟩ AS {name}) END"
        case exp.DType.DATE:
            return _date()
        case exp.DType.TIMESTAMP:
            finite = f"CASE WHEN regexp_matches({_BLANKS}, '^[0-9]') THEN CAST({_BLANKS} AS TIMESTAMP) "
            return (
                f"CASE WHEN {_STRING} AND ⟨0⟩ IS NOT NULL THEN {finite}ELSE {failing('the text is no TIMESTAMP')} END "
                "ELSE CAST(⟨0⟩ AS TIMESTAMP) END"
            )
        case exp.DType.BINARY:
            return f"CASE WHEN {_STRING} THEN encode({_TEXT}) ELSE CAST(⟨0⟩ AS BLOB) END"
        case exp.DType.BOOLEAN:
            return f"CASE WHEN {_STRING} THEN CAST({_BLANKS} AS BOOLEAN) ELSE CAST(⟨0⟩ AS BOOLEAN) END"
        case _:
            return None


def _whole_digits(decimal: exp.DataType) -> int:
    numbers = [int(parameter.name) for parameter in decimal.expressions]
    return (numbers[0] if numbers else 10) - (numbers[1] if len(numbers) > 1 else 0)


def _integer(name: str) -> str:
    """Fractions are cut off, a text must be a whole number, and a TIMESTAMP is its seconds."""
    micros = "epoch_us(CAST(⟨0⟩ AS TIMESTAMP))"
    seconds = f"({micros} - ({micros} % 1000000 + 1000000) % 1000000) // 1000000"
    return (
        f"CASE WHEN {_STRING} AND ⟨0⟩ IS NOT NULL THEN CASE WHEN regexp_full_match({_BLANKS}, '[+-]?[0-9]+') "
        f"THEN CAST({_BLANKS} AS {name}) ELSE {failing(f'the text is no {name}')} END "
        f"WHEN {_REAL} THEN CAST(trunc({_DOUBLE}) AS {name}) "
        f"WHEN {_DECIMAL} THEN CAST(split_part({_TEXT}, '.', 1) AS {name}) "
        f"WHEN typeof(⟨0⟩) = 'TIMESTAMP' THEN CAST({seconds} AS {name}) "
        f"ELSE CAST(⟨0⟩ AS {name}) END"
    )


def _number(name: str) -> str:
    return f"CAST({_BLANKS} AS {name})"


def _text() -> str:
    form = (
        f"CASE typeof(⟨0⟩) WHEN 'DOUBLE' THEN ms_double_text({_DOUBLE}) WHEN 'FLOAT' THEN ms_float_text({_DOUBLE}) "
        f"WHEN 'BLOB' THEN decode(CAST(⟨0⟩ AS BLOB)) ELSE {_TEXT} END"
    )
    return refusing(_SCALARS, "arrays, maps and structs are not converted to STRING in the store", form)


def _date() -> str:
    year, month, day = (
        f"CAST(coalesce(nullif(regexp_extract({_BLANKS}, '{_DATE}', {group}), ''), '1') AS BIGINT)"
        for group in (1, 2, 3)
    )
    return (
        f"CASE WHEN {_STRING} AND ⟨0⟩ IS NOT NULL THEN CASE WHEN regexp_full_match({_BLANKS}, '{_DATE}') "
        f"THEN make_date({year}, {month}, {day}) ELSE {failing('the text is no DATE')} END ELSE CAST(⟨0⟩ AS DATE) END"
    )
