"""The state of the page, in memory: data, schema, plan, release, and the command of each step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from missdp.app.jobs import Document, Job, Problem, shown
from missdp.app.schema_rows import SchemaRows
from missdp.errors import MissDPError, OutputError, ParameterError, SchemaError, replacing
from missdp.files import write_atomically

Form = Mapping[str, str]
STEPS = ("data", "schema", "plan", "release", "look")
GRID = "0.25,0.5,1,2,4"  # budgets of a plan
_SUFFIXES = (
    *(".csv", ".csv.gz", ".tsv", ".parquet", ".pq", ".feather", ".arrow", ".xlsx", ".sav"),
    *(".zsav", ".dta", ".sas7bdat", ".xpt", ".duckdb", ".ddb"),
)
_MAX_FILES = 40  # listed files of the folder


class Workspace:
    """The five steps of one page. A method ``on_STEP_ACTION`` handles a form of the page.

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
        self.version = 0  # number of changes of the schema
        self.places: dict[str, int] = {}  # of each row on the page, which an edit does not move
        self.typed: dict[str, Form] = {}  # forms of rows that were not accepted
        self.schema: SchemaRows | None = None
        self.stored: tuple[Path, str] | None = None  # the last file that was read or written
        self.fit: Document = {}  # the check of schema and data
        self.plan: Document = {}
        self.planned: tuple[list[str], Document] | None = None  # the release to be confirmed
        self.account: Document = {}
        self.model: Path | None = None
        self.guarantee: Document = {}
        self.rows: Path | None = None
        self.dossier: Path | None = None
        self.answers: list[Document] = []
        self.curator = ""
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
        path = self.saved
        if path is not None and self.stored is not None:
            with self.lock:
                try:
                    if _text(path) != self.stored[1]:
                        self.on_schema_load({"path": str(path)})
                except MissDPError as error:
                    self.stored = None
                    self.problem = Problem("schema", "The schema file was changed", str(error))

    @property
    def stem(self) -> str:
        """The name of the data without suffixes, for the names of other files."""
        return Path(self.forms["data"].get("data", "")).name.partition(".")[0] or "table"

    def form(self, step: str, name: str, default: str = "") -> str:
        """Return the typed text of a field, or a default."""
        return self.forms[step].get(name, default)

    def files(self) -> list[str]:
        """Return the data files in the current folder."""
        names = {path.name for path in Path().iterdir()}
        data = (name for name in names if name.lower().endswith(_SUFFIXES))
        return sorted(name for name in data if f"{name}.synthetic.json" not in names)[:_MAX_FILES]

    def obstacles(self) -> list[str]:
        """Return the reasons why the schema would stop a release."""
        return [] if self.schema is None else list(_obstacles(self.schema.toml))

    def act(self, step: str, action: str, form: Form) -> None:
        """Run an action of the page. An error becomes the problem of the step."""
        method = getattr(self, f"on_{step}_{action}", self.stop if action == "stop" else None)
        with self.lock:
            self.notice, self.warnings, problem = "", [], None
            try:
                if method is None:
                    raise ParameterError("there is no such action. Reload the page.")
                if self.is_busy and action != "stop":
                    raise ParameterError("another command is running. Wait for its end.")
                self.problem = None
                method(form)
            except MissDPError as error:
                problem = Problem(step, "This was not accepted", str(error))
            self.problem = problem or self.problem

    def _start(
        self, step: str, words: list[str], finish: Callable[[Document], None], typed: str = ""
    ) -> None:
        """Run a command, and show it as a person types it."""

        def finished(document: Document) -> None:
            with self.lock:
                finish(document)
                self.warnings = document.get("warnings", [])

        def failed(problem: Problem) -> None:
            with self.lock:
                self.problem = problem

        self.commands[step][" ".join(words[:2])] = typed or shown(words)
        self.job = Job(step, words, finished, failed)

    def stop(self, form: Form) -> None:
        """Interrupt the running command."""
        del form
        if self.job is not None:
            self.job.stop()

    # Data and schema

    def on_data_read(self, form: Form) -> None:
        """Draft a schema from the rows, or read a schema file."""
        data = (form.get("pick") or form.get("data", "")).strip()
        if not data:
            raise ParameterError("choose a file, or type its path.")
        self.forms["data"] = dict(form) | {"data": data}
        self.fit = {}
        if path := form.get("schema", "").strip():
            self.on_schema_load({"path": path})
            return
        words = ["schema", "init", data, "-o", "-", *_options(form, "encoding", "table")]
        words += ["--no-header"] * ("no_header" in form)
        typed = shown([f"{self.stem}.toml" if word == "-" else word for word in words])

        def read(document: Document) -> None:
            self.stored, self.places = None, {}
            self._set_schema(SchemaRows(document["toml"], f"{self.stem}.toml"))
            drafted, ignored = len(document["attributes"]), len(document["ignored"])
            are = "is" if ignored == 1 else "are"
            self.notice = (
                f"{drafted + ignored} columns: {drafted} are drafted, {ignored} {are} never read."
            )

        self._start("data", words, read, typed)

    def _set_schema(self, rows: SchemaRows) -> None:
        """Set a schema that is valid."""
        if caught := rows.checked[1]:
            self.notice = " ".join(caught)
        self.schema, self.planned, self.fit = rows, None, {}
        self.version += 1
        self.typed = {}
        for row in rows.rows:
            self.places.setdefault(row.name, len(self.places))

    def _checked(self, form: Form) -> SchemaRows:
        """Return the schema. Raise an error if another tab has changed it."""
        if self.schema is None:
            raise ParameterError("there is no schema yet. Read the data in step 1.")
        if form.get("version", str(self.version)) != str(self.version):
            raise ParameterError("another tab changed the schema. It is shown now. Edit it again.")
        return self.schema

    def on_schema_row(self, form: Form) -> None:
        """Change the facts of a column."""
        rows, name = self._checked(form), form.get("name", "")
        self.typed[name] = form
        if form.get("action") != "kind":  # else only the fields of another kind are shown
            self._set_schema(rows.with_row(name, form))

    def on_schema_all(self, form: Form) -> None:
        """Declare all facts public for one reason."""
        rows, reason = self._checked(form), " ".join(form.get("public", "").split())
        if not reason:
            raise ParameterError("state why the facts are public, such as: questionnaire of 2024.")
        self._set_schema(rows.all_public(reason))

    def on_schema_rule(self, form: Form) -> None:
        """Add a rule."""
        rows = self._checked(form)
        self.typed["[rule]"] = form
        self._set_schema(rows.with_rule(rule_of(form)))

    def on_schema_remove(self, form: Form) -> None:
        """Remove a rule."""
        self._set_schema(self._checked(form).without_rule(int(form.get("place", "0"))))

    def check_rule(self, form: Form) -> str:
        """Return the problem of a rule that is being typed, or an empty text."""
        try:
            if self.schema is not None:
                _, caught = self.schema.with_rule(rule_of(form)).checked
                return " ".join(caught)
        except MissDPError as error:
            return str(error)
        return ""

    def on_schema_text(self, form: Form) -> None:
        """Replace the schema by a text."""
        name = self._checked(form).name
        self.typed["[toml]"] = form
        self._set_schema(SchemaRows(form.get("toml", "").replace("\r\n", "\n"), name))

    def on_schema_load(self, form: Form) -> None:
        """Read the schema from a file."""
        path = Path(form.get("path", "").strip())
        text = _text(path)
        self._set_schema(SchemaRows(text, str(path)))
        self.stored = (path, text)
        self.notice = self.notice or f"Read {path}."

    def on_schema_save(self, form: Form) -> None:
        """Write the schema to a file, from which all later steps read it."""
        rows, path = self._checked(form), Path(form.get("path", "").strip() or "schema.toml")
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
        self.commands["schema"]["check"] = shown(["schema", "check", str(path)])

    def on_schema_check(self, form: Form) -> None:
        """Check whether the data fit the schema."""
        words = ["schema", "check", str(self._saved(form)), *self._data()]
        self._start("schema", words, lambda document: setattr(self, "fit", document))

    def _saved(self, form: Form) -> Path:
        """Return the file of the schema."""
        self._checked(form)
        if self.saved is None:
            raise ParameterError("the schema is not saved yet. Save it in step 2.")
        return self.saved

    def _data(self) -> list[str]:
        """Return the words of the private rows."""
        data = self.form("data", "data")
        if not data:
            raise ParameterError("there are no data yet. Choose a file in step 1.")
        return [data, *_options(self.forms["data"], "table")]

    # Plan and release

    def on_plan_make(self, form: Form) -> None:
        """Plan a release from public facts."""
        self.forms["plan"] = dict(form)
        path = self._saved(form)
        if not form.get("rows", "").strip():
            raise ParameterError("type the number of rows: a public or a rough number.")
        words = ["plan", str(path), "--rows", form["rows"].strip()]
        words += ["--epsilon", form.get("epsilon", "").replace(" ", "") or GRID]
        words += _options(form, "method", "delta", "strategy")
        for option, fields in (("--missing-rate", "rates"), ("--mean", "means")):
            for line in form.get(fields, "").replace(",", "\n").split("\n"):
                words += [option, line.strip()] * bool(line.strip())

        self._start("plan", words, lambda document: setattr(self, "plan", document))

    def on_plan_choose(self, form: Form) -> None:
        """Take the epsilon of the plan for the release."""
        self.forms["release"]["epsilon"] = form.get("epsilon", "1")
        for name in ("method", "delta", "strategy"):
            self.forms["release"][name] = self.form("plan", name)

    def on_release_state(self, form: Form) -> None:
        """State the guarantee of a release before it is confirmed."""
        self.forms["release"] |= dict(form)
        self.planned = None
        path, data = self._saved(form), self._data()
        words = ["fit", *data, "--schema", str(path), "--epsilon", form.get("epsilon", "").strip()]
        words += ["-o", form.get("output", "").strip() or f"{self.stem}.model.json"]
        words += _options(form, "method", "delta", "strategy", "public-rows", "ledger", "account")
        words += _options(form, "purpose") if form.get("ledger", "").strip() else []
        words += ["--overwrite"] * ("overwrite" in form)

        def planned(document: Document) -> None:
            self.planned = (words, document)

        self._start("release", [*words, "--dry-run"], planned, shown(words))

    def on_release_confirm(self, form: Form) -> None:
        """Run the confirmed release once. The command charges first."""
        if self.planned is None or form.get("command") != shown(self.planned[0]):
            raise ParameterError("state the guarantee again: the release was changed or started.")
        if "confirmed" not in form:
            raise ParameterError("tick the box to confirm the release. A charge is never refunded.")
        words, _ = self.planned
        self.planned = None

        def released(document: Document) -> None:
            self._set_model(Path(document["model"]), document["guarantee"])
            self.account = {}  # its numbers were true before the charge
            self.notice = f"Released: {document['model']}. Go on with step 5."

        self._start("release", words, released)

    def on_release_account(self, form: Form) -> None:
        """Create an account of a ledger."""
        self.forms["release"] |= dict(form)
        words = ["ledger", "create", *_options(form, "ledger", "account")]
        words += ["--epsilon", form.get("total", "").strip()]
        words += _options({"delta": form.get("total_delta", "")}, "delta")
        words += _options(form, "privacy-measure")
        words += ["--schema", str(self.saved)] if self.saved else []
        self._start("release", words, lambda _: self._show_account(form))

    def on_release_show(self, form: Form) -> None:
        """Show the spending of an account."""
        self.forms["release"] |= dict(form)
        self._show_account(form)

    def _show_account(self, form: Form) -> None:
        words = ["ledger", "show", *_options(form, "ledger", "account")]
        self._start("release", words, lambda document: setattr(self, "account", document))

    # Look

    def _set_model(self, path: Path, guarantee: Document) -> None:
        self.model, self.guarantee = path, guarantee
        self.rows = self.dossier = None
        self.answers, self.curator = [], ""

    def on_look_open(self, form: Form) -> None:
        """Open the model of an earlier release."""
        path = Path(form.get("model", "").strip())

        def opened(document: Document) -> None:
            self._set_model(path, document["guarantee"])

        self._start("look", ["guarantee", str(path)], opened)

    def _released(self) -> str:
        """Return the path of the model."""
        if self.model is None:
            raise ParameterError("there is no release yet. Make one in step 4, or open a model.")
        return str(self.model)

    def on_look_rows(self, form: Form) -> None:
        """Draw synthetic rows."""
        self.forms["look"] |= dict(form)
        output = form.get("output", "").strip() or f"{self.stem}.synthetic.csv"
        words = ["sample", self._released(), "-o", output, *_options(form, "rows")]
        words += ["--keep-missing"] * ("keep_missing" in form)
        words += ["--overwrite"] * ("overwrite" in form)
        self._start("look", words, lambda _: setattr(self, "rows", Path(output)))

    def on_look_dossier(self, form: Form) -> None:
        """Write the dossier."""
        self.forms["look"] |= dict(form)
        folder = form.get("folder", "").strip() or f"{self.stem}-dossier"
        words = ["publish", self._released(), "-o", folder]
        words += _options(form, "title", "audience", "curator")
        words += ["--overwrite"] * ("overwrite" in form)
        self._start("look", words, lambda _: setattr(self, "dossier", Path(folder)))

    def on_look_estimate(self, form: Form) -> None:
        """Answer a question from the model."""
        question = form.get("question", "").strip()
        self.forms["look"]["question"] = question

        def answered(document: Document) -> None:
            self.answers.insert(0, document)

        self._start("look", ["estimate", self._released(), question], answered)

    def on_look_compare(self, form: Form) -> None:
        """Compare the release with the private rows, for the curator."""
        del form
        data, *table = self._data()
        words = ["evaluate", data, self._released(), *table, "--html", "-"]
        typed = shown([f"private/{self.stem}.html" if word == "-" else word for word in words])

        def compared(document: Document) -> None:
            self.curator = document["html"]

        self._start("look", words, compared, typed)


def rule_of(form: Form) -> Document:
    """Return the table of a rule from its form."""
    kind, text = form.get("rule", "never"), form.get("text", "").strip()
    if kind == "not_applicable":
        names = [name.strip() for name in form.get("names", "").split(",") if name.strip()]
        return {"not_applicable": names, "unless": text}
    return {kind if kind in ("never", "always") else "never": text}


@lru_cache(maxsize=2)
def _obstacles(toml: str) -> tuple[str, ...]:
    """Return the reasons why a schema would stop a release. The last schemas are remembered."""
    from missdp.governance.obstacles import release_obstacles

    return tuple(release_obstacles(SchemaRows(toml).schema))


def _options(form: Form, *names: str) -> list[str]:
    """Return the options of a command for fields that are not empty."""
    texts = [(name, form.get(name, "").strip()) for name in names]
    return [word for name, text in texts if text for word in (f"--{name}", text)]


def _text(path: Path) -> str:
    """Return the text of a schema file."""
    unreadable = SchemaError(f"cannot read {str(path)!r}. Check the path.")
    with replacing(OSError, ValueError, by=unreadable):
        return path.read_text(encoding="utf-8-sig")
