"""Bars of progress: in terminals and notebooks, and nowhere else."""

import contextlib
import io
import sys
import types
from importlib.machinery import ModuleSpec

import pytest
from rich.console import Console

from missdp import AllPairs, Categorical, Schema
from missdp import progress as bars
from missdp.errors import ParameterError
from missdp.evaluate import marginal_distance
from missdp.progress import print_stages, progress_bar, progress_callback

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


TABLE = {"a": ["x", "y"] * 200, "b": ["x", "x", "y", "y"] * 100}
PAIR = Schema(tuple(Categorical(name=name, levels=("x", "y")) for name in "ab"))


class Timer:
    """A timer whose time is over when a test says so, however busy the machine is."""

    def __init__(self, seconds, function):
        self.seconds, self._function, self._runs = seconds, function, False

    def start(self):
        self._runs = True

    def cancel(self):
        self._runs = False

    def elapse(self):
        if self._runs:
            self._function()


@pytest.fixture
def printed(monkeypatch):
    """Lines that a command prints about stages."""
    lines = []
    monkeypatch.setattr(bars, "_printers", [])
    print_stages(lines.append)
    return lines


@pytest.fixture
def timers(monkeypatch):
    """Timers that were made."""
    made = []

    def make(seconds, function):
        made.append(Timer(seconds, function))
        return made[-1]

    monkeypatch.setattr(bars.threading, "Timer", make)
    return made


def test_stages_of_long_work_are_printed_once_each(printed, timers):
    with progress_bar("reading") as progress:
        progress("fitting", 0.1)
        progress("fitting", 0.2)
        assert ([timer.seconds for timer in timers], printed) == ([2.0], [])
        timers[0].elapse()
        assert printed == ["fitting"]  # the stage that went on when the time was over
        for stage in ("fitting", "drawing", "drawing", "done"):
            progress(stage, None)
    assert printed == ["fitting", "drawing"]


def test_stages_of_short_work_are_not_printed(printed, timers):
    with progress_bar("reading") as progress:
        progress("fitting", 0.1)
    timers[0].elapse()
    assert printed == []


def test_python_prints_no_stages_by_itself(capsys):
    AllPairs(epsilon=9, delta=1e-6, random_state=0).fit(TABLE, schema=PAIR)
    assert capsys.readouterr().err == ""


def test_progress_true_prints_stages_where_no_bar_can_be_drawn(capsys):
    model = AllPairs(epsilon=9, delta=1e-6, random_state=0, progress=True)
    model.fit(TABLE, schema=PAIR)
    lines = capsys.readouterr().err.splitlines()
    assert "measuring pairs" in lines
    assert len(lines) == len({*lines})
    assert "done" not in lines
    assert model.get_params()["progress"] is True
    marginal_distance(model.sample(50), TABLE, schema=PAIR, progress=True)
    assert "2-way marginals" in capsys.readouterr().err


def test_progress_true_draws_a_bar_in_a_terminal(monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr("rich.console.Console", lambda **_: Console(file=file, force_terminal=True))
    AllPairs(epsilon=9, delta=1e-6, random_state=0, progress=True).fit(TABLE, schema=PAIR)
    assert "100%" in file.getvalue()


def test_progress_that_is_neither_bar_nor_callable_raises():
    model = AllPairs(epsilon=9, progress="yes")
    with pytest.raises(ParameterError, match="progress must be"):
        model.fit(TABLE, schema=PAIR)
    for none in (None, False):
        with progress_callback(none) as found:
            assert found is None
