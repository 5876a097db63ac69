"""The state of the page, in memory: data, schema, plan, release, and the command of each step."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from missdp.app.jobs import Document, Job, shown
from missdp.app.schema_rows import Form, SchemaRows
from missdp.errors import MissDPError, OutputError, ParameterError, SchemaError, replacing
from missdp.files import write_atomically

STEPS = ("data", "schema", "plan", "release", "look")
GRID = "0.25,0.5,1,2,4"  # budgets of a plan
_DATA = re.compile(
    r"\.(csv(\.gz)?|tsv|parquet|pq|feather|arrow|xlsx|z?sav|dta|sas7bdat|xpt|duckdb|ddb)$", re.I
)
_MAX_FILES = 40  # listed files of the folder
_FLAGS = ("no-header", "overwrite", "keep-missing")
_REPEATED = ("missing-rate", "mean")
_FIT = "epsilon output overwrite ledger account purpose method strategy delta public-rows"


class Action(NamedTuple):
    """A command that a form of the page runs.

    Words in braces are known to the page. Options are fields of the form with the same name.
    """

    words: str
    options: str = ""
    written: str = ""  # the file of the shown command, since the page keeps the output in memory


ACTIONS = {
    "data/read": Action("schema init {data} -o -", "encoding no-header", "{stem}.toml"),
    "schema/check": Action("schema check {schema} {data}"),
    "plan/make": Action("plan {schema}", "rows epsilon missing-rate mean method strategy delta"),
    "release/show": Action("ledger show", "ledger account"),
    "release/account": Action(
        "ledger create --schema {schema}",
        "ledger account total-epsilon total-delta privacy-measure",
    ),
    "release/state": Action("fit {data} --schema {schema} --dry-run", _FIT),
    "look/open": Action("guarantee {model}"),
    "look/rows": Action("sample {released}", "output rows keep-missing overwrite"),
    "look/dossier": Action("publish {released}", "output title audience curator overwrite"),
    "look/estimate": Action("estimate {released} {question}"),
    "look/compare": Action("evaluate {data} {released} --html -", "", "private/{stem}.html"),
}


@dataclass(frozen=True)
class Problem:
    """An error of a step: its message with the remedy, and all that was charged."""

    step: str
    message: str
    released: tuple[str, ...] = ()


class Workspace:
    """The five steps of one page.

    A form runs a command of `ACTIONS`. A method ``on_STEP_ACTION`` handles any other form, and
    ``after_STEP_ACTION`` gets the document of a command that succeeded.

    Parameters
    ----------
    data : str, default ""
        The place of the private rows.
    schema : Path, optional
        A schema file, which is read at once.
    ledger, account : str, default ""
        Defaults of the release.
    """

    def __init__(
        self, data: str = "", schema: Path | None = None, ledger: str = "", account: str = ""
    ) -> None:
        self.lock = threading.RLock()
        self.forms: dict[str, dict[str, str]] = {step: {} for step in STEPS}
        self.forms["data"] = {"data": data}
        self.forms["release"] = {"ledger": ledger, "account": account}
        self.commands: dict[str, dict[str, str]] = {step: {} for step in STEPS}
        self.problem: Problem | None = None
        self.notice, self.warnings = "", list[str]()
        self.job: Job | None = None
        # Documents of the last commands by action, with the words and the file of the command.
        self.results: dict[str, Document] = {}
        self.answers: list[Document] = []
        self.schema: SchemaRows | None = None
        self.version = 0  # number of changes of the schema
        self.typed: Form = {}  # the form of the schema, if it is not saved
        self.stored: tuple[Path, str] | None = None  # the last file that was read or written
        if schema is not None:
            self.on_schema_load({"path": str(schema)})

    # The page

    @property
    def is_busy(self) -> bool:
        """Whether a command runs."""
        return self.job is not None and self.job.is_running

    @property
    def saved(self) -> Path | None:
        """The file with the present schema, or None if the schema is not saved."""
        if self.schema is None or self.stored is None or self.stored[1] != self.schema.toml:
            return None
        return self.stored[0]

    def refresh(self) -> None:
        """Read the schema again if another program changed its file."""
        with self.lock:
            try:
                if self.stored and self.saved and _text(self.saved) != self.stored[1]:
                    self.on_schema_load({"path": str(self.saved)})
            except MissDPError as error:
                self.stored = None
                self.problem = Problem("schema", f"The schema file was changed. {error}")

    @property
    def stem(self) -> str:
        """The name of the data without suffixes, for the names of other files."""
        return Path(self.forms["data"].get("data", "")).name.partition(".")[0] or "table"

    def files(self) -> list[str]:
        """Return the data files in the current folder."""
        names = {path.name for path in Path().iterdir()}
        data = (name for name in names if _DATA.search(name))
        return sorted(name for name in data if f"{name}.synthetic.json" not in names)[:_MAX_FILES]

    def obstacles(self) -> list[str]:
        """Return the reasons why the schema would stop a release."""
        return [] if self.schema is None else _obstacles(self.schema)

    def act(self, step: str, action: str, form: Form) -> None:
        """Run an action of the page. An error becomes the problem of the step."""
        key = f"{step}/{action}"
        with self.lock:
            try:
                if action == "stop" and self.job is not None:
                    self.job.stop()
                    return
                if self.is_busy:
                    raise ParameterError("another command is running. Wait for its end.")
                self.notice, self.warnings, self.problem = "", [], None
                method = getattr(self, f"on_{step}_{action}", None)
                if method is None and key not in ACTIONS:
                    raise ParameterError("there is no such action. Reload the page.")
                if step != "schema" and step in self.forms:
                    old = {k: v for k, v in self.forms[step].items() if k not in _FLAGS}
                    self.forms[step] = old | dict(form)
                _ = method(form) if method is not None else self._run(key, form)
            except MissDPError as error:
                self.problem = Problem(step, str(error))

    def _run(self, key: str, form: Form) -> None:
        """Run the command of a form."""
        action, typed = ACTIONS[key], {"model": form.get("model"), "question": form.get("question")}
        words = []
        for word in action.words.split():
            name = word.strip("{}")
            if name == word:
                words.append(word)
            elif name in typed:
                words.append((typed[name] or "").strip())
            else:
                words += getattr(self, f"_{name}")()
        for name in action.options.split():
            option, text = f"--{name.removeprefix('total-')}", form.get(name, "").strip()
            for one in re.split(r"[,\n]", text) if name in _REPEATED else [text]:
                words += [option, one.strip()][: 1 if name in _FLAGS else 2] if one.strip() else []
        written = action.written.format(stem=self.stem)
        printed = [written if word == "-" else word for word in words if word != "--dry-run"]
        self._start(key, words, printed)

    def _start(self, key: str, words: list[str], printed: list[str]) -> None:
        """Run a command, and show it as a person types it."""
        step = key.partition("/")[0]

        def done(document: Document) -> None:
            with self.lock:
                self.warnings = document.get("warnings", [])
                if "error" in document and "data_fits" not in document:
                    error = document["error"]
                    self.problem = Problem(step, error["message"], tuple(error["released"]))
                    return
                file = words[words.index("--output") + 1 if "--output" in words else 1]
                self.results[key] = {**document, "command": words, "file": Path(file)}
                after: Callable[..., None] | None
                if after := getattr(self, f"after_{key.replace('/', '_')}", None):
                    after(document)

        self.commands[step][" ".join(words[:2])] = shown(printed)
        self.job = Job(words, done)

    def _forget(self, *keys: str) -> None:
        """Forget results that are no longer true."""
        self.results = {key: one for key, one in self.results.items() if key not in keys}

    # Data and schema

    def on_data_read(self, form: Form) -> None:
        """Draft a schema from the rows, or read a schema file."""
        self.forms["data"]["data"] = (form.get("pick") or form.get("data", "")).strip()
        path = form.get("schema", "").strip()
        _ = self.on_schema_load({"path": path}) if path else self._run("data/read", form)

    def after_data_read(self, document: Document) -> None:
        """Show the draft."""
        self.stored = None
        self._set_schema(SchemaRows(document["toml"], f"{self.stem}.toml"))
        drafted, unread = len(document["attributes"]), len(document["ignored"])
        self.notice = (
            f"{drafted + unread} columns. Drafted: {drafted}. Never read, unless you change "
            f"that: {unread}."
        )

    def _set_schema(self, rows: SchemaRows) -> None:
        """Set a schema that is valid."""
        self.warnings = rows.checked[1]
        self.version += len(rows.rows) > 0
        self.schema, self.typed = rows, {}
        self._forget("schema/check", "plan/make", "release/state")

    def _checked(self, form: Form) -> SchemaRows:
        """Return the schema. Raise an error if another tab has changed it."""
        if self.schema is None:
            raise ParameterError("there is no schema yet. Read the data in step 1.")
        if form.get("version", str(self.version)) != str(self.version):
            raise ParameterError("another tab changed the schema. It is shown now. Edit it again.")
        return self.schema

    def on_schema_kind(self, form: Form) -> None:
        """Keep a form that is being typed, such as the fields of another kind of column."""
        self._checked(form)
        self.typed = form

    def on_schema_try(self, form: Form) -> None:
        """Check a form that is being typed. It is not lost if another step is opened."""
        self.on_schema_kind(form)
        rows = self._checked(form).edited(form)
        self.warnings = rows.checked[1]
        self.typed = {} if rows.toml == self._checked(form).toml else form

    def on_schema_save(self, form: Form) -> None:
        """Write the schema to a file, from which all later steps read it."""
        self.on_schema_kind(form)
        rows = self._checked(form)
        text = form.get("toml", "").replace("\r\n", "\n")
        self._set_schema(replace(rows, toml=text) if text else rows.edited(form))
        rows, path = self._checked({}), Path(form.get("path", "").strip() or rows.name)
        if path.suffix != ".toml":
            raise ParameterError("the schema file must end in .toml.")
        # A file is replaced without a question if it is as this page has read or written it.
        is_ours = self.stored is not None and path == self.stored[0] and path.exists()
        again = "overwrite" in form or (is_ours and self.stored == (path, _text(path)))
        if path.exists() and not again:
            raise OutputError(f"{str(path)!r} exists. Tick the box to replace it.")
        write_atomically(path, rows.toml.encode("utf-8"), overwrite=again)
        self.schema, self.stored = replace(rows, name=str(path)), (path, rows.toml)
        self.notice = f"Saved {path}."
        self.commands["schema"]["schema check"] = shown(["schema", "check", str(path)])

    def on_schema_load(self, form: Form) -> None:
        """Read the schema from a file."""
        path = Path(form.get("path", "").strip())
        text = _text(path)
        self._set_schema(SchemaRows(text, str(path)))
        self.stored, self.notice = (path, text), f"Read {path}."

    def _schema(self) -> list[str]:
        """Return the file of the schema."""
        self._checked({})
        if self.typed or self.saved is None:
            raise ParameterError("step 2 has changes that are not saved. Save the schema there.")
        return [str(self.saved)]

    def _data(self) -> list[str]:
        """Return the words of the private rows."""
        form = self.forms["data"]
        if not form.get("data", "").strip():
            raise ParameterError("there are no data yet. Choose a file in step 1, or type a path.")
        table = form.get("table", "").strip()
        return [form["data"].strip(), *(["--table", table] if table else [])]

    # Plan and release

    def on_plan_choose(self, form: Form) -> None:
        """Take the epsilon of the plan for the release."""
        names = ("method", "delta", "strategy")
        self.forms["release"] |= {name: self.forms["plan"].get(name, "") for name in names}
        self.forms["release"]["epsilon"] = form.get("chosen", "1")

    def after_release_account(self, document: Document) -> None:
        """Show the new account."""
        del document
        self._run("release/show", self.forms["release"])

    def on_release_confirm(self, form: Form) -> None:
        """Run the confirmed release once. The command charges first."""
        planned = self.results.get("release/state", {"command": []})["command"]
        words = [word for word in planned if word != "--dry-run"]
        if not words or form.get("command") != shown(words):
            raise ParameterError("state the guarantee again: the release was changed or started.")
        if "confirmed" not in form:
            raise ParameterError("tick the box to confirm the release. A charge is never refunded.")
        self._forget("release/state")
        self._start("release/confirm", words, words)

    def after_release_confirm(self, document: Document) -> None:
        """Show the release."""
        self._forget("release/show")  # its numbers were true before the charge
        self.notice = f"Released: {document['model']}. Go on with step 5."
        self._run("look/open", {"model": document["model"]})

    def after_look_open(self, document: Document) -> None:
        """Look at a model. Results of another model are forgotten."""
        del document
        self.answers = []
        self._forget("look/rows", "look/dossier", "look/compare")

    def after_look_estimate(self, document: Document) -> None:
        """Show the answer above earlier answers."""
        self.answers.insert(0, document)

    def _released(self) -> list[str]:
        """Return the path of the model."""
        if "look/open" not in self.results:
            raise ParameterError("there is no release yet. Make one in step 4, or open a model.")
        return [str(self.results["look/open"]["file"])]


@lru_cache(maxsize=2)
def _obstacles(schema: SchemaRows) -> list[str]:
    """Return the reasons why a schema would stop a release. The last schemas are remembered."""
    from missdp.governance.obstacles import release_obstacles

    return list(release_obstacles(schema.checked[0]))


def _text(path: Path) -> str:
    """Return the text of a schema file."""
    unreadable = SchemaError(f"cannot read {str(path)!r}. Check the path.")
    with replacing(OSError, ValueError, by=unreadable):
        return path.read_text(encoding="utf-8-sig")
