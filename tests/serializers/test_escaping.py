"""Text out of files on its way to people and programs: nothing forges a line, or a command of CI or of a shell."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import pytest
from markdown_it import MarkdownIt

from stateshift import MigrationFailed, StateShiftError
from stateshift.serializers.wording import (
    encodable_json,
    github_command,
    json_text,
    log_line,
    markdown_code,
    markdown_text,
    one_line,
    shell_word,
)

CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))]
HIDDEN = [*"\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff\xad"]
HALVES = ["\ud800", "\udbff", "\udc80", "\udfff"]


@pytest.mark.parametrize("character", [*CONTROLS, *HIDDEN, *HALVES, "\U000e0041", "\ufffe"], ids=ascii)
def test_what_cannot_be_seen_is_escaped_in_every_form(character):
    text = f"a{character}b"

    shown = [one_line(text), log_line(text), shell_word(text), github_command("error", {"title": text}, [text])]
    shown += [markdown_text(text), markdown_code(text)]
    document = json_text({text: [text]})

    assert [True] * 7 == [form.isprintable() for form in [*shown, document]]
    assert {text: [text]} == json.loads(document)
    assert text not in shown


def test_other_letters_stay_as_they_are():
    text = "Konto … 口座 ¶ 😀 'a' \\n"

    assert (text, text) == (one_line(text), log_line(text))
    assert f'["{text}"]'.replace("\\", "\\\\") == json_text([text])


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_json_reads_back_whatever_letters_an_encoding_has(encoding):
    document = {"Zoë": "Konto … 口座 😀 \\ \u200b \ud800"}

    text = encodable_json(json_text(document), encoding)

    assert document == json.loads(text.encode(encoding).decode(encoding))
    assert ("Zoë" in text) is (encoding != "ascii")


def test_escaping_twice_is_escaping_once():
    text = "::a\n\x9b\u202e##[b]\ud800"

    assert one_line(text) == one_line(one_line(text))
    assert log_line(text) == log_line(log_line(text))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("::error::x", r"\x3a:error::x"),
        ("  ::stop-commands::x", r"  \x3a:stop-commands::x"),
        ("a ##[error]x", r"a \x23#[error]x"),
        ("##vso[task.setvariable]x", r"\x23#vso[task.setvariable]x"),
        ("std::string and ## and #[x]", "std::string and ## and #[x]"),
    ],
)
def test_a_printed_line_is_no_command_of_ci(line, shown):
    assert shown == log_line(line)


def test_an_annotation_is_one_line_whatever_is_in_it():
    command = github_command("error", {"file": "a,b.py", "title": "50%: x\n::error::y"}, ["1%\r\n2", "3: 4, 5"])

    assert r"::error file=a%2Cb.py,title=50%25%3A x\n%3A%3Aerror%3A%3Ay::1%25\r\n2%0A3: 4, 5" == command
    assert "::warning::x" == github_command("warning", {}, ["x"])


MARKUP = [
    "<script>alert(1)</script>",
    "**b** _e_ ~~s~~ `c` ``` \\",
    "[a](http://x) ![b](y) <http://z> [c]: d",
    "a | b || c",
    "&lt;b&gt; &#60;",
    "# h",
    " padded ",
    "",
    "`",
]


@pytest.mark.parametrize("text", MARKUP)
def test_markdown_shows_text_as_it_is_also_in_a_table(text):
    shown = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    table = f"| {markdown_text(text)} | {markdown_code(text)} |\n| --- | --- |\n"

    tokens = shown.parse(f"x {markdown_text(text)}\n\n{table}")

    pieces = [piece for token in tokens for piece in token.children or ()]
    assert {"text", "html_inline", "code_inline", "text_special"} >= {piece.type for piece in pieces}
    markup = {piece.content for piece in pieces if piece.type == "html_inline"}
    assert {"<span>", "</span>", "<code>", "</code>"} >= markup
    line, *cells = ("".join(piece.content for piece in token.children if piece.type != "html_inline")
                    for token in tokens if token.type == "inline")  # fmt: skip
    assert f"x {text}".rstrip() == line
    assert [text.strip()] * 2 == [cell.strip() for cell in cells]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("@octocat", "<span>@</span>octocat"),
        ("$.a and #12", "<span>$</span>.a and <span>#</span>12"),
        ("http://x.y www.x.y", r"http&#58;//x.y www\.x.y"),
        ("0001_first of s3_a", "0001_first of s3_a"),
    ],
)
def test_github_makes_no_mention_reference_formula_or_link_of_it(text, shown):
    assert shown == markdown_text(text)


@pytest.mark.parametrize("word", ["a b", "", "it's", "a\nb", "'\\\x1b\x010", "\t\x7f", "é\u202e"])
def test_a_word_of_a_command_is_what_it_was(word):
    program = "import os, sys; sys.stdout.buffer.write(os.fsencode(sys.argv[1]))"

    ran = subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -c "{program}" {shell_word(word)}'], capture_output=True, check=True
    )

    assert word.encode() == ran.stdout


class TestErrors:
    def test_a_name_forges_no_line(self):
        error = StateShiftError(
            "state 'x\nverdict: start'", state="x\n  Nothing was written.", advice="a\nb", written="c\u2028d"
        )

        assert r"state 'x\nverdict: start'" == error.what
        assert [
            r"state 'x\nverdict: start'",
            r"  where: state x\n  Nothing was written.",
            r"  what to do: a\nb",
            r"  c\u2028d",
        ] == str(error).split("\n")
        assert "x\n  Nothing was written." == error.where["state"]

    def test_details_have_lines_of_their_own(self):
        error = MigrationFailed("it failed", details=["  in a", "  in b\nc"])

        assert "it failed\n  in a\n  in b\\nc" == str(error) == str(pickle.loads(pickle.dumps(error)))
