"""Random numbers and random text that are the same everywhere.

Owns `Draws`, a stream of random values named by its key. It takes nothing but raw words from
numpy, the one stream of random numbers that numpy keeps from version to version; what is made of
the words is made here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_LETTERS = bytes(ord("a") + byte % 26 for byte in range(256))
_DIGITS = bytes(ord("0") + byte % 10 for byte in range(256))


def _words_and(separator: str) -> bytes:
    """Letters, and the separator one time in thirteen."""
    return bytes(ord(separator) if byte % 13 == 0 else ord("a") + byte % 26 for byte in range(256))


_WITH_SPACES, _WITH_UNDERSCORES = _words_and(" "), _words_and("_")


class Draws:
    """An endless stream of random values; the same key gives the same values."""

    def __init__(self, *key: int) -> None:
        self._bits = np.random.SFC64(np.random.SeedSequence(key))

    def words(self, count: int) -> Words:
        words: Words = self._bits.random_raw(count)
        return words

    def below(self, limit: int | Ints, count: int) -> Ints:
        """Whole numbers from 0 up to a limit, or to one limit each; limits are below 2**32."""
        scaled = (self.words(count) >> np.uint64(32)) * np.asarray(limit, np.uint64) >> np.uint64(32)
        return scaled.astype(np.int64)

    def prices(self, count: int) -> Ints:
        """From 1 to 1,000,000 dollars in cents, as many of each magnitude."""
        share = (self.words(count) >> np.uint64(11)) * 2.0**-53
        prices: Ints = np.rint(np.power(10.0, share * 6.0) * 100.0).astype(np.int64)
        return prices

    def choices(self, options: Sequence[str], count: int) -> pa.StringArray:
        return pa.array(options, pa.string()).take(pa.array(self.below(len(options), count)))

    def letters(self, lengths: Ints) -> pa.StringArray:
        """Texts of these lengths."""
        return self._texts(lengths, _LETTERS)

    def digits(self, length: int, count: int) -> pa.StringArray:
        return self._texts(np.full(count, length, np.int64), _DIGITS)

    def phrases(self, longest: int, count: int, *, underscores: bool = False) -> pa.StringArray:
        """Texts of 3 letters or more with gaps; they do not begin with a gap, so none is empty when trimmed."""
        lengths = 3 + self.below(longest - 3, count)
        return self._texts(lengths, _WITH_UNDERSCORES if underscores else _WITH_SPACES, begin_with_letter=True)

    def _texts(self, lengths: Ints, alphabet: bytes, *, begin_with_letter: bool = False) -> pa.StringArray:
        offsets = np.zeros(len(lengths) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        raw = self.words(-(-int(offsets[-1]) // 8)).astype("<u8", copy=False).tobytes()
        text: bytes | bytearray = raw.translate(alphabet)
        if begin_with_letter and len(lengths):
            text = bytearray(text)
            bytes_ = np.frombuffer(text, np.uint8)
            bytes_[offsets[:-1]] = np.frombuffer(raw, np.uint8)[offsets[:-1]] % 26 + ord("a")
        return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(text))


def scatter(numbers: Ints, seed: int) -> Words:
    """A random word for each number, by the number alone (the finaliser of SplitMix64)."""
    words = numbers.astype(np.uint64) + np.uint64(seed)
    words *= np.uint64(0x9E3779B97F4A7C15)
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words
