"""The notebooks hold no outputs, and run from top to bottom in a kernel of their own."""

import json
from pathlib import Path

import pytest

BOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


def test_notebooks_hold_no_outputs():
    assert [book.stem for book in BOOKS] == ["ledger-and-dossier", "main-job"]
    for book in BOOKS:
        for cell in json.loads(book.read_text(encoding="utf-8"))["cells"]:
            assert not cell.get("outputs"), book.name
            assert cell.get("execution_count") is None, book.name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_notebooks_run(book, tmp_path):
    from nbclient import NotebookClient
    from nbformat import read

    folder = {"metadata": {"path": str(tmp_path)}}
    done = NotebookClient(read(book, as_version=4), timeout=600, resources=folder).execute()
    assert all(cell.get("execution_count") for cell in done.cells if cell.cell_type == "code")
    kept = {"ledger-and-dossier": "dossier/report.html", "main-job": "survey.model.json"}
    assert (tmp_path / kept[book.stem]).stat().st_size > 1000
