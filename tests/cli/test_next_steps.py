from stateshift.cli.next_steps import start_lines


def test_flink_is_given_a_place_without_the_options_of_pyarrow():
    lines = start_lines("s3://b/sp?endpoint_override=h:1&scheme=http", flink_restorable=True, with_orphans=False)

    assert lines == ["start the job: flink run -s s3://b/sp …"]
    assert start_lines("/a b?", flink_restorable=True, with_orphans=False) == ["start the job: flink run -s '/a b?' …"]
