"""The state of the page, in memory: data, schema, plan, release, and the command of each step."""

from __future__ import annotations

import re
import shlex
import threading
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from missdp.app.jobs import Document, Job, shown
from missdp.app.schema_rows import Form, edited
from missdp.errors import MissDPError, OutputError, ParameterError
from missdp.files import write_atomically
from missdp.schema.edits import SchemaText

STEPS = ("data", "schema", "plan", "release", "look")
_MAX_FILES = 40  # listed files of the folder
_BOXES = ("no-header", "overwrite")  # forms do not send a box without its tick
_FLAGS = (*_BOXES, "keep-missing")
_STALE = "another tab changed the schema. It is shown now. Edit it."
_REPEATED = ("missing-rate", "mean")
_PLAN = "rows epsilon missing-rate mean mean-weight method strategy delta"
_ACCOUNT = "ledger account total-epsilon total-delta privacy-measure"
_FINE: Document = {"step": "", "message": ""}  # no problem
_FIT = "epsilon output overwrite ledger account purpose method strategy delta public-rows"


class Action(NamedTuple):
    """A command that a form of the page runs.

    Words in braces are known to the page, or are lines of a field of the form. Options are fields
    of the form with the same name.
    """

    words: str
    options: str = ""
    written: str = ""  # the file of the shown command, since the page keeps the output in memory


ACTIONS = {
    "data/read": Action("schema init {data} -o -", "encoding no-header", "{stem}.toml"),
    "schema/check": Action("schema check {schema} {data}"),
    "plan/make": Action("plan {schema}", _PLAN),
    "release/show": Action("ledger show", "ledger account"),
    "release/account": Action("ledger create --schema {schema}", _ACCOUNT),
    "release/state": Action("fit {data} --schema {schema} --dry-run", _FIT),
    "look/open": Action("guarantee {model}"),
    "look/rows": Action("sample {released}", "output rows keep-missing overwrite"),
    "look/dossier": Action("publish {released}", "output title audience curator overwrite"),
    "look/estimate": Action("estimate {released} {questions}"),
    "look/compare": Action("evaluate {data} {released} --html -", "", "private/{stem}.html"),
}


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
        stated = {"ledger": ledger, "account": account}
        self.forms["release"] = {name: text for name, text in stated.items() if text}
        self.commands: dict[str, str] = {}  # the last command line of each action
        self.problem = _FINE  # the step, the message, and all that was charged
        self.notice, self.warnings = "", list[str]()
        self.job: Job | None = None
        self.results: dict[str, Document] = {}  # the document of the last command of each action
        self.schema = SchemaText("")
        self.version = 0  # number of changes of the schema
        self.typed: Form = {}  # the form of the schema, if it is not saved
        self.stored: tuple[Path | None, str] = (None, "")  # the last file, read or written
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
        return self.stored[0] if self.stored[1] == self.schema.toml else None

    def refresh(self) -> None:
        """Read the schema again if another program changed its file."""
        with self.lock:
            try:
                if self.saved and SchemaText.of_file(self.saved).toml != self.stored[1]:
                    self.on_schema_load({"path": str(self.saved)})
            except MissDPError as error:
                self.stored = (None, "")
                self._forget("release/state")
                self.problem = {"step": "schema", "message": f"The file was changed. {error}"}

    @property
    def stem(self) -> str:
        """The name of the data without suffixes, for the names of other files."""
        return Path(self.forms["data"].get("data", "")).name.partition(".")[0] or "table"

    def files(self) -> list[str]:
        """Return the data files in the current folder."""
        from missdp.table.read_files import READABLE  # slow to import

        names = {path.name for path in Path().iterdir()}
        data = (name for name in names if name.lower().endswith((*READABLE, ".duckdb", ".ddb")))
        return sorted(name for name in data if f"{name}.synthetic.json" not in names)[:_MAX_FILES]

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
                self.notice, self.warnings, self.problem = "", [], _FINE
                self._keep(step, form)
                if method := getattr(self, f"on_{step}_{action}", None):
                    method(form)
                elif key in ACTIONS:
                    self._run(key, form)
                elif action != "keep":
                    raise ParameterError("there is no such action. Reload the page.")
            except MissDPError as error:
                self.problem = {"step": step, "message": str(error)}

    def _keep(self, step: str, form: Form) -> None:
        """Keep the texts of a form, so that the page shows them again."""
        if step == "release" and "command" not in form:  # the fields of the release were sent
            self._forget("release/state")
        if step in self.forms:
            old = {name: text for name, text in self.forms[step].items() if name not in _BOXES}
            self.forms[step] = old | dict(form)
        if "version" in form:
            if form["version"] != str(self.version):
                raise ParameterError(_STALE)
            # Further facts of another kind do not fit.
            former = f"{form.get('changed')}.more"
            self.typed = {name: text for name, text in form.items() if name != former}

    def _run(self, key: str, form: Form) -> None:
        """Run the command of a form."""
        action, words = ACTIONS[key], list[str]()
        for word in action.words.split():
            name = word.strip("{}")
            known = getattr(self, f"_{name}", lambda name=name: _parts(form.get(name, ""), "\n"))
            words += [word] if name == word else known()
        for name in action.options.split():
            option = f"--{name.removeprefix('total-')}"
            for one in _parts(form.get(name, ""), r"[,\n]" if name in _REPEATED else "\n"):
                words += [option] if name in _FLAGS else [option, one]
        written = action.written.format(stem=self.stem)
        typed = [word for word in words if word != "--dry-run"]
        self._start(key, words, [written or word if word == "-" else word for word in typed])

    def _start(self, key: str, words: list[str], printed: list[str]) -> None:
        """Run a command, and show it as a person types it."""
        step = key.partition("/")[0]
        self._forget(key)

        def done(document: Document) -> None:
            with self.lock:
                self.warnings = document.get("warnings", [])
                if "error" in document and "data_fits" not in document:
                    self.problem = {"step": step, **document["error"]}
                    return
                self.results[key] = document
                if "output" in document:
                    self.notice = f"Written: {document['output']}."
                if after := getattr(self, f"after_{key.replace('/', '_')}", None):
                    after(document)

        self.commands[key] = shown(printed)
        self.job = Job(words, done)

    def _forget(self, *keys: str) -> None:
        """Forget results that are no longer true."""
        self.results = {key: one for key, one in self.results.items() if key not in keys}

    # Data and schema

    def on_data_read(self, form: Form) -> None:
        """Draft a schema from the rows."""
        self.forms["data"]["data"] = (form.get("pick") or form.get("data", "")).strip()
        self._run("data/read", form)

    def after_data_read(self, document: Document) -> None:
        """Show the draft."""
        self.stored = (None, "")
        self._set_schema(SchemaText(document["toml"], f"{self.stem}.toml"))
        drafted, unread = len(document["attributes"]), len(document["ignored"])
        self.notice = f"Columns: {drafted + unread}."
        self.notice += f" Never read, unless you change that: {unread}." if unread else ""

    def _set_schema(self, text: SchemaText) -> None:
        """Set a schema that is valid."""
        self.warnings = text.checked[1]
        self.version += len(text.tables)
        self.schema, self.typed = text, {}
        self._forget("schema/check", "plan/make", "release/state")

    def try_schema(self, form: Form) -> str:
        """Return the problems of a form that is being typed. It is kept if another step is opened.

        A check may arrive after the form was saved. It changes nothing then.
        """
        with self.lock:
            if form.get("version") != str(self.version):
                return _STALE
            self.typed = form
            try:
                text = edited(self.schema, form)
                self.typed = {} if text.toml == self.schema.toml else form
                return " ".join(text.checked[1])
            except MissDPError as error:
                return str(error)

    def on_schema_save(self, form: Form) -> None:
        """Write the schema to a file, from which all later steps read it."""
        tables = self.schema.tables
        self._set_schema(edited(self.schema, form))
        path = Path(form.get("path", "").strip() or self.schema.name)
        if path.suffix != ".toml":
            raise ParameterError("the schema file must end in .toml.")
        # A file is replaced without a question if it is as this page has read or written it.
        is_ours = path.exists() and self.stored == (path, SchemaText.of_file(path).toml)
        again = is_ours or "overwrite" in form
        if path.exists() and not again:
            raise OutputError(f"{str(path)!r} exists. Tick the box to replace it.")
        write_atomically(path, self.schema.toml.encode("utf-8"), overwrite=again)
        self.schema, self.stored = replace(self.schema, name=str(path)), (path, self.schema.toml)
        self.notice = f"Saved {path}."
        for new, old in zip(self.schema.tables, tables, strict=False):
            if words := new.words_from(old):
                line = shown(["schema", "set", str(path), *words])
                self.commands[f"schema/set/{new.name}"] = line

    def on_schema_load(self, form: Form) -> None:
        """Read the schema from a file."""
        path = Path(form.get("path", "").strip())
        self._set_schema(SchemaText.of_file(path))
        self.stored, self.notice = (path, self.schema.toml), f"Read {path}."

    def _schema(self) -> list[str]:
        """Return the file of the schema."""
        if self.typed or self.saved is None:
            raise ParameterError("the schema is not saved yet. Save it in step 2.")
        return [str(self.saved)]

    def _data(self) -> list[str]:
        """Return the words of the private rows."""
        form = self.forms["data"]
        if not form.get("data", "").strip():
            raise ParameterError("there are no data yet. Choose a file in step 1, or type a path.")
        table = form.get("table", "").strip()
        return [form["data"].strip(), *(["--table", table] if table else [])]

    # Plan and release

    def after_release_account(self, _: Document) -> None:
        """Show the new account."""
        self._run("release/show", self.forms["release"])

    def on_release_confirm(self, form: Form) -> None:
        """Run the confirmed release once. The command charges first."""
        self.refresh()  # the guarantee may have been stated for an earlier file
        command = form.get("command", "")
        if "release/state" not in self.results or command != self.commands["release/state"]:
            raise ParameterError("state the guarantee again: the release was changed or started.")
        if "confirmed" not in form:
            raise ParameterError("tick the box to confirm the release. A charge is never refunded.")
        self._forget("release/state")
        words = shlex.split(command)[1:]
        self._start("release/confirm", words, words)

    def after_release_confirm(self, document: Document) -> None:
        """Show the release."""
        self._forget("release/show")  # its numbers were true before the charge
        self.notice = f"Released: {document['model']}."
        self._run("look/open", {"model": document["model"]})

    def after_look_open(self, _: Document) -> None:
        """Look at a model. Results of another model are forgotten."""
        self._forget("look/rows", "look/dossier", "look/compare", "look/estimate")

    def _released(self) -> list[str]:
        """Return the path of the model."""
        if "look/open" not in self.results:
            raise ParameterError("there is no release yet. Make one in step 4, or open a model.")
        return [self.results["look/open"]["model"]]


def _parts(text: str, between: str) -> list[str]:
    """Return the parts of a text between separators that are not empty."""
    return [part.strip() for part in re.split(between, text) if part.strip()]
