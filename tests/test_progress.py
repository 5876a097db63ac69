"""Bars of progress: in terminals and notebooks, and nowhere else."""

import contextlib
import io
import sys
import types
from importlib.machinery import ModuleSpec

import pytest
from rich.console import Console

from missdp import AllPairs, Categorical, Schema
from missdp.progress import progress_bar

SHOWN = {
    "terminal": {"force_terminal": True},
    "notebook": {"force_jupyter": True},
    "file": {"force_jupyter": False, "force_terminal": False},
}


@pytest.mark.parametrize("widgets", [True, False])
@pytest.mark.parametrize("place", SHOWN)
def test_a_bar_is_drawn_in_terminals_and_in_notebooks_that_have_widgets(
    place, widgets, monkeypatch, recwarn
):
    drawn = []

    class Output(contextlib.nullcontext):
        def clear_output(self, **_):
            drawn.append(True)

        def close(self):
            pass

    modules = {"ipywidgets": {"Output": Output}, "IPython": {}, "IPython.display": {"display": id}}
    for name, has in modules.items():
        module = types.ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        vars(module).update(has)
        if widgets:
            monkeypatch.setitem(sys.modules, name, module)
    file = io.StringIO()
    schema = Schema((Categorical(name="a", levels=("x", "secret")),))
    with progress_bar(console=Console(file=file, width=80, **SHOWN[place])) as progress:
        model = AllPairs(epsilon=9, delta=1e-6, random_state=0, progress=progress)
        model.fit({"a": ["x", "secret"] * 400}, schema=schema)
    text = file.getvalue()
    assert bool(drawn) == (place == "notebook" and widgets)
    assert bool(text) == (place == "terminal")
    assert "secret" not in text
    assert not [w for w in recwarn if "ipywidgets" in str(w.message)]
