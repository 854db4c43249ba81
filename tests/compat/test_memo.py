"""What is kept from one turn to the next."""

from __future__ import annotations

from stateshift.compat.memo import Memo


def test_an_answer_is_made_once_in_two_turns_and_forgotten_where_a_turn_did_not_need_it():
    memo, made = Memo(), []

    def ask(name):
        return memo.once(name, lambda: made.append(name) or len(made))

    assert [1, 1] == [ask("a"), ask("a")]
    memo.turn()
    assert [1, 2] == [ask("a"), ask("b")]
    memo.turn()
    memo.turn()
    assert 3 == ask("a")
    assert ["a", "b", "a"] == made


def test_none_is_an_answer():
    memo, made = Memo(), []
    assert [None, None] == [memo.once("a", lambda: made.append(1)) for _ in range(2)]

    assert [1] == made
