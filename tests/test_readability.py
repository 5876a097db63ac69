"""Tests of `.ci/readability.py`, which checks prose, and of `.ci/code_size.py`."""

import importlib.util
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULE = "src/missdp/example.py"


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


readability, code_size = load("readability"), load("code_size")
LONG = "The table " + "very " * 33 + "long."  # 36 words
LONGEST = "The table " + "very " * 32 + "long."  # 35 words


def problems(text, *, path="docs/page.md", changed=None, exported=()):
    lines = set(range(1, 1 + text.count("\n") + 1)) if changed is None else changed
    return [(f.line, f.problem) for f in readability.findings_of(path, text, lines, exported)]


@pytest.mark.parametrize(
    "text",
    [
        LONG,
        f"Short.\n\n* A point. {LONG}",
        f"| cell | {LONG} |",
        "The table " + "very\n" * 33 + "long.",
        f"```{{note}}\n{LONG}\n```",
        "Use the call (e.g. `f.x()`) " + "very " * 30 + "often.",
    ],
)
def test_sentence_of_36_words_is_reported(text):
    assert [problem[:27] for _, problem in problems(text)] == ["the sentence has 36 words. "]


@pytest.mark.parametrize(
    "text",
    [
        LONGEST,
        f"{LONGEST} {LONGEST}",
        f"* {LONGEST}\n* {LONGEST}",
        f"| {LONGEST} | {LONGEST} |",
        f"```python\n{LONG}\n```",
        f"```{{note}}\n```python\n{LONG}\n```\n```",
        f"$$\n{LONG}\n$$",
        f"<!-- {LONG} -->",
        f"`{LONG}`",
        f"[link](https://example.org/{LONG.replace(' ', '-')})",
    ],
)
def test_sentence_of_35_words_or_code_passes(text):
    assert problems(text) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "The door adds noise.",
        "Each gate is open.",
        "The release is gated.",
        "The total is told by the marginal.",
        "Import one room of the house.",
        "Strangers read the page.",
        "Every wing is optional.",
        "Rows have holes.",
        "Write the papers of a release.",
    ],
)
@pytest.mark.parametrize("form", ["{}", '"""{}"""\n', "x = 1  # {}\n"])
def test_metaphor_in_prose_is_reported(sentence, form):
    path = "docs/page.md" if form == "{}" else "tests/test_example.py"
    assert {line for line, _ in problems(form.format(sentence), path=path)} == {1}


@pytest.mark.parametrize(
    "text",
    [
        "Paper A and the paper's tables are known. Papers are cited.",
        "Call `door.share(0.1)` or door.share(0.1), see mechanisms/door.py and the name own_gate.",
        "The two are told apart. A household has a number of rooms, and house prices vary.",
        "Leave room for noise. People were told by a doctor.",
        "```python\nfrom missdp.somewhere.door import Door  # the door\n```",
    ],
)
def test_legitimate_uses_of_banned_words_pass(text):
    assert problems(text) == []


def test_docstring_lines_of_code_are_not_prose():
    text = f'''"""Return a number.

Parameters
----------
door : Door
    The session.

Examples
--------
>>> print("{LONG}")
{LONG}

An assumption::

    {LONG}

.. math:: {LONG}
"""
door = "the door"  # noqa: E501
'''
    assert problems(text, path="tests/test_example.py") == []


def test_docstring_offences_carry_the_line_of_the_sentence():
    docstring = f"Return a number.\n\n    It is short. The door\n    adds noise. {LONG}\n    "
    text = f'def f():\n    """{docstring}"""\n'
    assert [line for line, _ in problems(text, path=MODULE)] == [4, 5]


def test_sentence_counts_if_one_of_its_lines_changed():
    text = "The\ndoor is open.\nThe gate is closed.\n"
    assert problems(text, changed={3})[0][1].startswith("'gate'")
    assert problems(text, changed={1})[0][1].startswith("'door'")
    assert len(problems(text, changed={1, 3})) == 2
    assert problems(text, changed={4}) == []


FUNCTION = '''def share(a, b, *, c):
    """Return a share.{sections}
    """
    if not a:
        raise ValueError
    return b
'''
SECTIONS = [
    f"\n\n    {name}\n    {'-' * len(name)}\n    a : int"
    for name in ("Parameters", "Returns", "Raises")
]


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_function_without_a_section_is_reported(missing):
    text = FUNCTION.format(sections="".join(s for i, s in enumerate(SECTIONS) if i != missing))
    name = ("Parameters", "Returns", "Raises")[missing]
    expected = [(1, f"the docstring has no section {name}. Add it (numpydoc).")]
    assert problems(text, path=MODULE) == expected
    assert problems(text, path=MODULE, changed={text.count("\n")}) == []  # the body
    method = "class Model:\n" + "".join(f"    {line}\n" for line in text.splitlines())
    assert len(problems(method, path=MODULE, exported={"Model"})) == 1
    assert problems(method, path=MODULE) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (MODULE, FUNCTION.format(sections="".join(SECTIONS))),
        (MODULE, FUNCTION.format(sections="").replace("def share", "def _share")),
        (MODULE, FUNCTION.format(sections="").replace("a, b, *, c", "a, b")),
        ("src/missdp/_example.py", FUNCTION.format(sections="")),
        ("src/missdp/cli/example.py", FUNCTION.format(sections="")),
        ("tests/test_example.py", FUNCTION.format(sections="")),
    ],
)
def test_documented_or_private_function_passes(path, text):
    assert problems(text, path=path) == []


@pytest.fixture
def repository(tmp_path):
    def git(*arguments):
        names = ("-c", "user.name=test", "-c", "user.email=test@example.org")
        subprocess.run(["git", *names, *arguments], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("The old door.\n", encoding="utf-8")
    (tmp_path / ".ci").mkdir()
    limits = '["docs"]\nmetaphors = 9\n'
    (tmp_path / ".ci" / "readability.toml").write_text(limits, encoding="utf-8")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    git("tag", "one")
    return tmp_path


def test_main_changed_and_new_files_are_read(repository, capsys):
    assert readability.main(["--since", "one"], root=repository) == 0
    (repository / "docs" / "page.md").write_text("The old door.\n\nA gate.\n", encoding="utf-8")
    (repository / "README.md").write_text("A hole.\n", encoding="utf-8")
    assert readability.main(["--since", "one"], root=repository) == 1
    printed = capsys.readouterr().out
    assert "docs/page.md:3: 'gate'" in printed
    assert "README.md:1: 'hole'" in printed
    assert "door" not in printed
    assert "root pages: metaphors is 1" in printed
    assert readability.main(["--since", "one", str(repository / "src")], root=repository) == 0


def test_main_absent_commit_uses_the_oldest_and_says_so(repository, capsys):
    (repository / "docs" / "page.md").write_text("A gate.\n", encoding="utf-8")
    assert readability.main(["--since", "abcdef12"], root=repository) == 1
    assert "This clone has no commit abcdef12." in capsys.readouterr().out


@pytest.mark.parametrize(
    "sentence",
    [
        "What clipping takes is added back.",
        "It prints what was released.",
        "The guarantee bounds what the reader learns.",
        "Whatever follows costs nothing.",
        "Who skips a question skips the next one.",
    ],
)
def test_clause_without_a_noun_is_headless(sentence):
    assert [one.headless for one in readability.counted("docs/page.md", sentence)] == [True]


@pytest.mark.parametrize(
    "sentence",
    [
        "What is the price?",
        "A person who skips a question skips the next one.",
        "It states what share of the rows is missing.",
        'Never write "what clipping takes" for a bias.',
        "The analysis `what` is a what-if.",
        "A file holds all rows, whatever the limit.",
        "See [Who may use it?](page.md) for the rules.",
    ],
)
def test_clause_with_a_noun_or_a_question_is_not_headless(sentence):
    assert [one.headless for one in readability.counted("docs/page.md", sentence)] == [False]


def test_tables_count_except_for_their_length():
    text = f"{LONG}\n\n| a | {LONG} | The rows are few; the columns are many. |\n"
    first, *cells = readability.counted("docs/page.md", text)
    assert first.long
    assert not any(cell.long for cell in cells)
    assert sum(cell.semicolon for cell in cells) == 1


def test_measured_shares_leave_out_short_sentences():
    text = "Short text. It has four words. It has; five words. The door has four words."
    result = readability.measured([*readability.counted("docs/page.md", text)])
    assert result == (3, 0.0, pytest.approx(1 / 3), 4.0, 1, 0)


def test_group_of_a_file_is_its_package_or_folder():
    paths = {
        "README.md": "root pages",
        "docs/index.md": "docs",
        "docs/referees/claims.md": "docs/referees",
        "src/missdp/errors.py": "src/missdp",
        "src/missdp/synth/aim.py": "src/missdp/synth",
        "tests/synth/test_aim.py": "tests",
    }
    assert {path: readability.group_of(path) for path in paths} == paths


@pytest.fixture
def prose(tmp_path):
    """A repository with one page that breaks no rule, and without limits of its own."""
    for folder in ("docs", ".ci", "bench/results"):
        (tmp_path / folder).mkdir(parents=True)
    page = tmp_path / "docs" / "page.md"
    page.write_text("The fit costs epsilon. " * 50, encoding="utf-8")
    (tmp_path / "bench" / "results" / "made.md").write_text(f"The door. {LONG}", encoding="utf-8")
    return page


@pytest.mark.parametrize(
    ("added", "broken"),
    [
        ("", []),
        (LONG, []),  # one of 51
        (f"{LONG} " * 3, ["long"]),
        ("A fit costs epsilon; a query does, too. " * 3, ["semicolons"]),
        (("The table has " + "many " * 16 + "rows. ") * 60, ["median"]),
        ("The door adds noise.", ["metaphors"]),
        ("It costs what is released.", ["headless"]),
    ],
)
def test_limits_of_a_group_are_checked(prose, added, broken):
    prose.write_text(prose.read_text(encoding="utf-8") + added, encoding="utf-8")
    root = prose.parents[1]
    found = readability.check_groups(root)
    assert [line.split()[1] for line in found] == broken
    assert all(line.startswith("docs: ") for line in found)


def test_record_lowers_limits_and_never_raises_them(prose, capsys):
    root, bad = prose.parents[1], "The door is told what is released; it is open. "
    text = prose.read_text(encoding="utf-8")
    prose.write_text(text + bad * 5, encoding="utf-8")
    assert len(readability.check_groups(root)) == 3
    assert readability.check_groups(root, record=True) == []
    assert readability.read_limits(root) == {
        "docs": {"semicolons": 0.091, "metaphors": 5, "headless": 5}
    }
    assert "9.1% (limit 9.1%)" in capsys.readouterr().out
    prose.write_text(text + bad * 4, encoding="utf-8")
    assert readability.check_groups(root, record=True) == []
    assert readability.read_limits(root)["docs"]["metaphors"] == 4
    prose.write_text(text + bad * 5, encoding="utf-8")
    assert len(readability.check_groups(root, record=True)) == 3
    prose.write_text(text, encoding="utf-8")
    assert readability.check_groups(root, record=True) == []
    assert readability.read_limits(root) == {}
    prose.write_text(text + bad * 5, encoding="utf-8")
    assert len(readability.check_groups(root, record=True)) == 3


def test_list_prints_the_sentences_that_count(prose, capsys):
    prose.write_text("Fine text is here.\n\nThe door is open; it is old.\n", encoding="utf-8")
    assert readability.main(["--list"], root=prose.parents[1]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("docs/page.md:3: semicolon, metaphor\n")
    assert "Fine" not in printed


def test_limits_of_this_repository_name_groups_and_quantities():
    limits = readability.read_limits(ROOT)
    groups = {readability.group_of(path) for path in readability.all_files(ROOT)}
    assert limits.keys() <= groups
    for own in limits.values():
        assert own
        assert all(own[name] > readability.TARGETS[name] for name in own)


@pytest.fixture
def package(tmp_path):
    for folder in (*code_size.TRUSTED, "src/missdp/schema", "tests"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.py").write_text('"""Doc."""\n\nimport os\n\nx = 1\n# no\n', "utf-8")
    (tmp_path / ".ci").mkdir()
    assert code_size.main(["--record"], root=tmp_path) == 0
    return tmp_path


def test_code_size_trusted_code_that_grows_fails(package, capsys):
    assert code_size.main([], root=package) == 0
    with (package / code_size.TRUSTED[0] / "a.py").open("a", encoding="utf-8") as file:
        file.write("y = 2\n")
    assert code_size.main([], root=package) == 1
    assert "The trusted code has grown" in capsys.readouterr().out


def test_code_size_other_code_and_prose_may_grow(package, capsys):
    for folder in ("src/missdp/schema", "tests"):
        (package / folder / "b.py").write_text("y = 2\nz = 3\n", encoding="utf-8")
    (package / code_size.TRUSTED[0] / "b.py").write_text('"""Much.\n\nMore.\n"""\n', "utf-8")
    assert code_size.main([], root=package) == 0
    printed = capsys.readouterr().out.split("\n")
    trusted = len(code_size.TRUSTED)
    counts = [int(line.split()[-1]) for line in printed[: 3 + trusted]]
    assert counts == [trusted + 1 + 2, 6 + 2, trusted, *[1] * trusted]
