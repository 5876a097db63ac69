"""The pages for referees name tests that exist, and show the results that are kept."""

import json
import re
import subprocess
from pathlib import Path

import holes_elsewhere
import mutants
import pytest

ROOT = Path(__file__).parents[1]
REFEREES = ROOT / "docs" / "referees"
SEVERITIES = ("critical", "high", "medium", "low")
KINDS = ("False guarantees", "Lost charges", "Side channels", "Wrong data", "Wrong errors")


def read(name):
    return (REFEREES / name).read_text(encoding="utf-8")


def rows_of(text):
    """Return the cells of each row of the tables in a text, headings included."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


def test_claims_page_names_tests_that_exist():
    """Every row of its tables ends with a test, but for headings."""
    text = read("how-claims-are-tested.md")
    named = re.findall(r"`((?:tests|bench)/[\w/]+\.(?:py|md))`", text)
    assert len(set(named)) > 40
    assert [name for name in named if not (ROOT / name).is_file()] == []
    for row in rows_of(text):
        if row[-1] not in ("test", "main test"):
            assert row[-1].startswith("`tests/"), row


def test_claims_page_counts_the_deliberate_breaks():
    assert f" in {len(mutants.MUTANTS)} places" in read("how-claims-are-tested.md")
    assert {m.package for m in mutants.MUTANTS} >= {"accounting", "session"}


@pytest.fixture(scope="module")
def defects():
    """Rows of the tables of past defects, by kind."""
    text = read("known-limitations.md")
    sections = {kind: text.partition(f"\n### {kind}\n")[2].partition("\n#")[0] for kind in KINDS}
    return {kind: rows_of(section)[1:] for kind, section in sections.items()}


def listed(defects):
    return [row for rows in defects.values() for row in rows]


def test_defects_have_severity_version_fix_and_commit(defects):
    for row in listed(defects):
        assert len(row) == 5, row
        _, severity, affected, fix, commit = row
        assert severity in SEVERITIES, row
        assert re.fullmatch(r"0\.\d\.0(, 0\.\d\.0)*|work on 0\.\d\.0", affected), row
        assert fix.endswith("."), row
        assert re.fullmatch(r"`[0-9a-f]{8}`", commit), row


def test_table_of_kinds_counts_the_defects(defects):
    counts = [
        [kind.lower(), *(str(sum(row[1] == s for row in rows)) for s in SEVERITIES), str(len(rows))]
        for kind, rows in defects.items()
    ]
    shown = [row for row in rows_of(read("known-limitations.md")) if row[1:-1] and row in counts]
    assert shown == counts
    everything = listed(defects)
    assert (
        f"| **all** | {' | '.join(str(sum(r[1] == s for r in everything)) for s in SEVERITIES)}"
        in (read("known-limitations.md"))
    )


def test_commits_of_defects_are_in_the_history(defects):
    git = ["git", "-C", str(ROOT)]
    oldest = subprocess.run([*git, "cat-file", "-e", "1c946ec2"], check=False, capture_output=True)
    if oldest.returncode:  # a copy without history
        return
    for row in listed(defects):
        commit = row[4].strip("`")
        assert subprocess.run([*git, "cat-file", "-e", commit], check=False).returncode == 0, row


def test_pages_for_referees_name_files_that_exist():
    """Paths of tests, scripts and modules, on every page for referees."""
    lost = []
    for page in sorted(REFEREES.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        named = re.findall(r"`((?:tests|bench|docs|src|\.ci)/[\w/]+\.\w+)`", text)
        lost += [f"{page.name}: {name}" for name in named if not (ROOT / name).is_file()]
    assert lost == []


def test_works_cited_for_referees_are_in_the_references():
    references = read("references.md")
    entries = references.split("\n* ")
    word = r"[A-ZÁÉÖÜŁÄ][\wÀ-ž’\-]+"
    work = rf"({word}(?:, {word})*(?: and {word}| et al\.)?),? \(?((?:19|20)\d\d)\b"
    for page in ("methods.md", "how-claims-are-tested.md"):
        text = re.sub(r"\s+", " ", read(page)).replace("De Cristofaro", "Cristofaro")
        cited = [(set(re.findall(word, who)), year) for who, year in re.findall(work, text)]
        assert len(cited) > 1
        unknown = [
            (names, year)
            for names, year in cited
            if not any(f"({year})" in e and all(n in e for n in names) for e in entries)
        ]
        assert unknown == [], page
    pages = {p: p.read_text(encoding="utf-8") for p in (ROOT / "docs").rglob("*.md")}
    numbers = {p: set(re.findall(r"arXiv[: ](\d{4}\.\d{4,5})", text)) for p, text in pages.items()}
    listed = numbers.pop(REFEREES / "references.md")
    assert set().union(*numbers.values()) <= listed
    newest = "2604.18352 2602.17454 2205.14485 2602.05674 2511.13893 2504.14061 2411.04236"
    newest += " 2206.15063 2504.06923 2603.02010 2606.08259"
    assert {*newest.split()} <= set().union(*numbers.values())


def test_missing_values_elsewhere_shows_the_kept_results():
    results = json.loads(holes_elsewhere.RESULTS.read_text(encoding="utf-8"))
    page = read("holes-elsewhere.md")
    assert [table for table in holes_elsewhere.tables(results) if table not in page] == []
