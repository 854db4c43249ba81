"""Jobs: what cannot be meant is refused when it is declared, and a job that cannot be loaded says why."""

import sys

import pytest

from stateshift import (
    DeclarationError,
    Int32,
    Job,
    JobNotFound,
    ListStateDescriptor,
    MapStateDescriptor,
    Operator,
    ValueStateDescriptor,
    load_job,
)
from stateshift.compat.description import StateKind

KEYED_OP = "b2856b4d021e3d9347447624f34b9a39"  # format notes 3.2
VALUE, LIST, MAP = ValueStateDescriptor("s", int), ListStateDescriptor("s", int), MapStateDescriptor("s", str, int)


def test_the_id_of_an_operator_is_the_hash_of_its_uid():
    assert KEYED_OP == Operator("keyed-op").id
    assert KEYED_OP == Operator("keyed-op", operator_id=KEYED_OP).id
    assert KEYED_OP == Operator(operator_id=KEYED_OP).id


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "an operator needs a uid or an id"),
        ({"operator_id": "xyz"}, "not 32 hexadecimal digits"),
        ({"operator_id": KEYED_OP.upper()}, "not 32 hexadecimal digits"),
        ({"uid": "other", "operator_id": KEYED_OP}, "does not belong to the uid 'other'"),
        ({"uid": "op", "states": [VALUE]}, "keyed states but no key type"),
        ({"uid": "op", "key": int, "states": [VALUE, LIST]}, "'s' is declared twice in operator 'op'"),
        ({"uid": "op", "list_states": [LIST], "union_list_states": [LIST]}, "'s' is declared twice"),
        ({"uid": "op", "broadcast_states": [MAP, MAP]}, "'s' is declared twice"),
        ({"uid": "op", "list_states": [LIST], "broadcast_states": [MAP]}, "'s' is declared twice"),
        (
            {"uid": "op", "list_states": [VALUE]},
            "a ValueStateDescriptor 's' is in the list_states of operator 'op', but is not a ListStateDescriptor",
        ),
        ({"uid": "op", "union_list_states": [MAP]}, "is not a ListStateDescriptor"),
        ({"uid": "op", "broadcast_states": [LIST]}, "is not a MapStateDescriptor"),
        ({"uid": "op", "key": int, "states": [int]}, "is not a StateDescriptor"),
        ({"uid": "op", "list_states": [ListStateDescriptor("s", int, time_to_live=True)]}, "cannot have TTL"),
        ({"uid": "op", "key": object}, "no serializer is known"),
        ({"uid": "op", "key": "int"}, "'int' is a string, not a type"),
        ({"uid": "op", "key": int, "states": VALUE}, "states must be a list, not ValueStateDescriptor 's'"),
        ({"uid": "op", "list_states": "s"}, "list_states must be a list, not str"),
        ({"uid": "op", "broadcast_states": MAP}, "put it in brackets: broadcast_states="),
        ({"uid": "op", "timers": 5}, "timers must be a list, not int"),
    ],
)
def test_an_operator_that_cannot_be_meant_is_refused(arguments, message):
    with pytest.raises(DeclarationError, match=message):
        Operator(**arguments)


def test_a_keyed_and_an_operator_state_may_share_a_name():
    operator = Operator("op", key=int, states=[VALUE], list_states=[LIST])

    kinds = [state.kind for state in operator.describe().states]
    assert [StateKind.VALUE, StateKind.SPLIT_LIST] == kinds


@pytest.mark.parametrize(
    ("operators", "message"),
    [
        (Operator("op"), "operators must be a list, not Operator 'op'"),
        (None, "operators must be a list, not NoneType"),
        ("accounts", "operators must be a list, not str"),
        ([VALUE], "ValueStateDescriptor.* is in the operators of the job, but is not an Operator"),
    ],
)
def test_a_job_is_made_of_a_list_of_operators(operators, message):
    with pytest.raises(DeclarationError, match=message):
        Job(operators)


def test_two_operators_of_one_id_are_refused():
    with pytest.raises(DeclarationError, match="declared twice in the job"):
        Job([Operator("keyed-op"), Operator(operator_id=KEYED_OP)])


def test_a_job_describes_its_operators_and_states():
    job = Job(
        [
            Operator(
                "op",
                key=str,
                name="people read this",
                states=[VALUE],
                list_states=[ListStateDescriptor("split", Int32)],
                union_list_states=[ListStateDescriptor("union", Int32)],
                broadcast_states=[MapStateDescriptor("b", str, int)],
            ),
            Operator("keyed-op"),
        ]
    )
    first, second = job.describe("job shop:job").operators

    assert "job shop:job" == job.describe("job shop:job").origin
    assert ("op", "people read this", "string") == (first.uid, first.name, first.key.describe())
    assert {
        "s": (StateKind.VALUE, "long"),
        "split": (StateKind.SPLIT_LIST, "int"),
        "union": (StateKind.UNION_LIST, "int"),
        "b": (StateKind.BROADCAST, "map<string, long>"),
    } == {state.name: (state.kind, state.describe()) for state in first.states}
    assert (KEYED_OP, None, ()) == (second.operator_id, second.key, second.states)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """`module("text")`: a module `userjob` with that text."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(text, name="userjob"):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)

    yield write
    for name in ("userjob", "other"):
        sys.modules.pop(name, None)


DECLARED = "from stateshift import Job, Operator\njob = Job([Operator('op')])\n"


def test_a_job_is_found_by_module_and_attribute(module):
    module(DECLARED)

    assert Job([Operator("op")]) == load_job("userjob:job")


def test_a_function_may_give_the_job(module):
    module(DECLARED + "def make():\n    return job\n")

    assert Job([Operator("op")]) == load_job("userjob:make")


class TestFiles:
    """A path that ends in `.py` names the module of that file."""

    def test_a_job_is_found_by_its_file_and_is_the_one_of_the_module(self, module, tmp_path):
        module(DECLARED)

        by_file = load_job(f"{tmp_path}/userjob.py:job")

        assert Job([Operator("op")]) == by_file
        assert by_file is load_job("userjob:job")
        assert by_file is load_job(f"{tmp_path}/./userjob.py:job")

    def test_its_folder_is_not_searched(self, tmp_path):
        (tmp_path / "userjob.py").write_text("import beside_it\n" + DECLARED, encoding="utf-8")
        (tmp_path / "beside_it.py").touch()

        with pytest.raises(JobNotFound, match=r"No module named 'beside_it' \(.*userjob.py, line 1\)") as caught:
            load_job(f"{tmp_path}/userjob.py:job")
        assert "PYTHONPATH" in caught.value.advice
        assert "userjob" not in sys.modules

    @pytest.mark.parametrize(
        ("name", "message", "advice"),
        [
            ("nowhere.py", "there is no file .*nowhere.py", "starts in the current folder"),
            ("json.py", "another module 'json' is loaded already", "rename the file"),
            ("my-job.py", "'my-job' is not a valid name of a module", "rename the file"),
        ],
    )
    def test_a_file_that_cannot_be_a_module_is_refused(self, tmp_path, name, message, advice):
        for other in ("json.py", "my-job.py"):
            (tmp_path / other).write_text(DECLARED, encoding="utf-8")

        with pytest.raises(JobNotFound, match=message) as caught:
            load_job(f"{tmp_path}/{name}:job")
        assert advice in caught.value.advice

    def test_a_file_that_fails_says_how_and_where(self, tmp_path):
        (tmp_path / "userjob.py").write_text("x = 1 / 0\n", encoding="utf-8")

        with pytest.raises(JobNotFound, match=r"ZeroDivisionError: division by zero \(.*userjob.py, line 1"):
            load_job(f"{tmp_path}/userjob.py:job")
        assert "userjob" not in sys.modules


@pytest.mark.parametrize("place", ["", "userjob", "userjob:", ":job", ":"])
def test_a_place_is_module_and_attribute(place):
    with pytest.raises(JobNotFound, match="does not name a job") as caught:
        load_job(place)
    assert "module:attribute" in caught.value.advice


@pytest.mark.parametrize(
    ("text", "message", "advice"),
    [
        ("import nowhere_to_be_found\n", "No module named 'nowhere_to_be_found'.*userjob.py, line 1", "fix the module"),
        ("import user\n", "No module named 'user'", "fix the module"),
        ("def (:\n", "SyntaxError", "fix the module"),
        ("x = 1 / 0\n", r"ZeroDivisionError: division by zero.*userjob.py, line 1", "fix the module"),
        ("raise SystemExit(3)\n", "SystemExit: 3", "fix the module"),
    ],
)
def test_a_module_that_fails_says_how_and_where(module, text, message, advice):
    module(text)

    with pytest.raises(JobNotFound, match=message) as caught:
        load_job("userjob:job")
    assert advice in caught.value.advice


@pytest.mark.parametrize("name", ["nowhere", "nowhere.deep"])
def test_a_module_that_is_not_there_says_where_to_run(name):
    with pytest.raises(JobNotFound, match=f"the module '{name}' cannot be imported") as caught:
        load_job(f"{name}:job")
    assert "PYTHONPATH" in caught.value.advice


def test_a_declaration_error_in_the_module_stays_what_it_is(module):
    module("from stateshift import Job, Operator\njob = Job([Operator('op'), Operator('op')])\n")

    with pytest.raises(DeclarationError, match="declared twice"):
        load_job("userjob:job")


def test_an_attribute_that_is_not_there_is_answered_with_the_jobs_that_are(module):
    module(DECLARED + "second = job\nthird = 5\n")

    with pytest.raises(JobNotFound, match=r"no attribute 'jbo'; jobs in it: job, second$"):
        load_job("userjob:jbo")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("5", "is a int, not a stateshift.Job"),
        ("Operator('op')", "is a Operator, not"),
        ("lambda: 5", "is a int, not"),
        ("lambda: 1 / 0", "was called to get the job, and failed: ZeroDivisionError"),
        ("lambda argument: argument", "was called to get the job, and failed: TypeError"),
        ("Job", "was called to get the job, and failed: TypeError"),
    ],
)
def test_what_is_no_job_is_refused(module, value, message):
    module(DECLARED + f"it = {value}\n")

    with pytest.raises(JobNotFound, match=message):
        load_job("userjob:it")
