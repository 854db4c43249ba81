"""Mutations: of a whole input, or of one of its pieces; by a random generator, or by the mutator of a fuzzer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stateshift import StateShiftError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from pieces import Pieces

_WHOLE_ONE_IN = 4
_MOST_STEPS = 4
_NUMBERS = (0, 1, 2, 7, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def mutate(
    data: bytes, rng: random.Random, apart: Callable[[bytes], Pieces], change: Callable[[bytes], bytes], limit: int
) -> bytes:
    """Give a mutated input.

    Args:
        data: The input.
        rng: Decides where.
        apart: Takes the input apart; where it cannot, and now and then anyway, the whole input is mutated.
        change: Mutates a piece.
        limit: The size in bytes that the result may have.
    """
    if rng.randrange(_WHOLE_ONE_IN):
        try:
            pieces = apart(data)
            chosen = rng.randrange(len(pieces.parts))
            pieces.parts[chosen] = change(pieces.parts[chosen])
            mutated = pieces.join(pieces.parts)
        except (StateShiftError, ValueError, IndexError):
            mutated = b""  # what was mutated before need not be of a shape that comes apart
        if mutated and len(mutated) <= limit:
            return mutated
    return change(data)[:limit]


def by_chance(rng: random.Random, words: Sequence[bytes], others: Sequence[bytes]) -> Callable[[bytes], bytes]:
    """Give a mutator that needs no fuzzer: a few flips, cuts, numbers, words, and crossings with other inputs."""

    def change(data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(rng.randint(1, _MOST_STEPS)):
            _step(changed, rng, words, others)
        return bytes(changed)

    return change


def _step(data: bytearray, rng: random.Random, words: Sequence[bytes], others: Sequence[bytes]) -> None:
    at, size = rng.randint(0, len(data)), min(rng.choice((1, 1, 2, 4, 8, 16, 64)), len(data))
    match rng.randrange(7):
        case 0 if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case 1:
            width = rng.choice((1, 2, 4, 4, 8))
            data[at : at + width] = (rng.choice(_NUMBERS) & (1 << 8 * width) - 1).to_bytes(width, "big")
        case 2:
            del data[at : at + size]
        case 3:
            data[at:at] = rng.randbytes(size)
        case 4:
            data[at:at] = data[max(at - size, 0) : at]
        case 5:
            word = rng.choice(words)
            data[at : at + rng.choice((0, len(word)))] = word
        case _:
            other = rng.choice(others)
            start = rng.randint(0, len(other))
            data[at : at + size] = other[start : start + rng.choice((size, size, 256))]
