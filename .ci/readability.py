"""Check that prose is readable: `python .ci/readability.py [--since COMMIT] [PATH ...]`.

Prose is the text of Markdown pages, docstrings and comments. Code blocks, text in backticks,
identifiers, addresses and formulas are not prose. There are two checks.

The first check reads all files and prints a line for each group of files. It states the share of
sentences with more than 35 words outside of tables, the share with a semicolon, and the median
length. It also counts metaphors and headless clauses. Each quantity has a limit in `TARGETS`. A
group that misses a target has a limit of its own in `readability.toml`. `--record` lowers these
limits to the measured values and never raises a limit. `--list` prints the sentences that count.

The second check reads the lines that were changed since `SINCE`. A sentence has at most 35 words.
Prose uses no metaphor of `METAPHORS`. A public function of a module, or a public method of an
exported class, with three or more parameters documents its parameters, its return value and its
errors. Functions without any docstring are left to the D rules of ruff.

No check limits the amount of text. Everything else in the style guide is left to reviewers.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SINCE = "13a1c517"  # commit from which on lines are checked
MAX_WORDS = 35  # words in a sentence
MIN_PARAMETERS = 3  # parameters of an exported function that needs the numpydoc sections

# A pattern of each banned metaphor, and the plain term to use.
METAPHORS = {
    r"doors?": "session",
    r"gate[sd]?|gating": "required attributes",
    r"told(?! apart)(?! by a (?:doctor|nurse))": "implied by, or given",
    r"(?<!-)houses?(?! prices?)": "package",
    # A dwelling may have these, and "to have space" has an idiom with the word.
    r"(?<!emergency )(?<!number of )(?<!is )(?<!enough )rooms?(?! (?:to|for)\b)": "package",
    r"strangers?": "new users",
    r"wings?": "optional package",
    r"holes?": "missing values",
    r"(?<!-)shel(?:f|ves)": "disk array",
    r"(?:its|their|release|release's) papers|papers of (?:the|a|each|every) release": "dossier",
}
METAPHOR = {re.compile(rf"(?<![\w-])(?:{p})(?![\w-])", re.I): t for p, t in METAPHORS.items()}

# Docstrings of commands are shown as help, where sections have no place.
WITHOUT_SECTIONS = ("src/missdp/cli/",)
PACKAGE = "src/missdp/"

Line = tuple[int, str]  # number in the file, text


class Finding(NamedTuple):
    """One offence against a rule."""

    path: str
    line: int
    problem: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.problem}\n    {self.text}"


# --- Changed lines -----------------------------------------------------------------------------


def git(*arguments: str, root: Path) -> str:
    """Return the output of a git command."""
    command = ["git", "-C", str(root), "-c", "core.quotePath=false", *arguments]
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout


def start_of(since: str, *, root: Path) -> str:
    """Return the commit to compare with: the oldest one of a clone that lacks ``since``."""
    try:
        return git("rev-parse", "--verify", "--quiet", f"{since}^{{commit}}", root=root).strip()
    except subprocess.CalledProcessError:
        oldest = git("rev-list", "--max-parents=0", "HEAD", root=root).split()[-1]
    print(f"This clone has no commit {since}. Lines changed since {oldest[:12]} are checked.")
    return oldest


def changed_lines(since: str, *, root: Path = ROOT) -> dict[str, set[int]]:
    """Return the numbers of the changed lines of each checked file, new files included."""
    patterns = ("*.py", "docs/*.md", ":(glob)*.md")
    diff = git("diff", "-U0", "-M", "--no-color", "--no-ext-diff", "--src-prefix=a/",
               "--dst-prefix=b/", since, "--", *patterns, root=root)  # fmt: skip
    changed: dict[str, set[int]] = {}
    lines: set[int] = set()
    for text in diff.splitlines():
        if text.startswith("+++ "):
            path = text[4:].rstrip("\t")
            lines = changed.setdefault(path[2:], set()) if path.startswith("b/") else set()
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", text):
            first, number = int(hunk[1]), int(hunk[2] or 1)
            lines.update(range(first, first + number))
    for path in git("ls-files", "--others", "--exclude-standard", *patterns, root=root).split("\n"):
        if path:
            number = len((root / path).read_text(encoding="utf-8").splitlines())
            changed[path] = set(range(1, number + 1))
    return changed


# --- Prose -------------------------------------------------------------------------------------


class Blocks:
    """Collects the lines of paragraphs, list items, headings and table cells."""

    def __init__(self) -> None:
        self.complete: list[list[Line]] = []
        self.current: list[Line] = []

    def end(self) -> None:
        """End the current block."""
        if self.current:
            self.complete.append(self.current)
        self.current = []

    def add(self, number: int, text: str) -> None:
        """Add a line to the current block."""
        self.current.append((number, text))


BULLET = re.compile(r"(\s*)((?:[-*+]|\d+[.)]|\([a-z0-9]\)|\[\d+\])\s+)")
FENCE = re.compile(r"\s*(`{3,}|~{3,}|:{3,})\s*(\S*)")
ADMONITION = re.compile(r"\{?(?:note|warning|tip|important|admonition|dropdown|seealso)\b")


def markdown_blocks(lines: Iterable[Line]) -> list[list[Line]]:
    """Return the blocks of prose of a Markdown page, without code, formulas and comments."""
    blocks = Blocks()
    fences: list[str] = []  # opening fences that are not closed yet
    skipped = ""  # the end of the formula or HTML comment that a line is in
    for number, text in lines:
        stripped = text.strip()
        fence = FENCE.match(text)
        if skipped:
            skipped = "" if skipped in stripped else skipped
        elif fence and (not fences or fences[-1] in ADMITTED or not fence[2]):
            blocks.end()
            if fences and not fence[2] and fence[1] == fences[-1].split()[0]:
                fences.pop()
            elif not fences or fences[-1] in ADMITTED:
                admitted = ADMONITION.match(fence[2])
                fences.append(fence[1] + (" prose" if admitted else " code"))
        elif fences and fences[-1] not in ADMITTED:
            continue
        elif stripped.startswith(("$$", "<!--")):
            blocks.end()
            closing = "$$" if stripped.startswith("$$") else "-->"
            skipped = "" if closing in stripped[2:] else closing
        else:
            add_markdown(blocks, number, text)
    blocks.end()
    return blocks.complete


ADMITTED = {f"{mark * n} prose" for mark in "`~:" for n in range(3, 10)}


def add_markdown(blocks: Blocks, number: int, text: str) -> None:
    """Add one line of a page that is outside of code."""
    stripped = text.strip()
    if not stripped or re.fullmatch(r"[-=*_:]{3,}", stripped) or re.match(r"\(\S+\)=$", stripped):
        blocks.end()
    elif stripped.startswith("|"):
        blocks.end()
        for cell in re.split(r"(?<!\\)\|(?=(?:[^`]*`[^`]*`)*[^`]*$)", stripped):
            blocks.add(number, cell)
            blocks.end()
    elif stripped.startswith("#"):
        blocks.end()
        blocks.add(number, stripped.lstrip("#"))
        blocks.end()
    else:
        bullet = BULLET.match(text)
        if bullet:
            blocks.end()
        blocks.add(number, text[bullet.end() :] if bullet else text)


PROSE_DIRECTIVE = re.compile(r"\.\. (?:note|warning|seealso|versionadded|tip|important)::")
TERM = re.compile(r"\*{0,2}[\w*, ]+ : \S")  # a parameter with its type


def docstring_blocks(lines: list[Line]) -> list[list[Line]]:
    """Return the blocks of prose of a docstring or a comment, without examples and literals."""
    blocks = Blocks()
    indent = 0
    example = False  # inside an example, which a blank line ends
    literal: int | None = None  # indentation of a line whose deeper lines are code
    for number, text in lines:
        stripped = text.strip()
        depth = len(text) - len(text.lstrip())
        if not stripped:
            blocks.end()
            example = False
            continue
        if literal is not None and depth > literal:
            continue
        literal = None
        example = example or stripped.startswith(">>>")
        if example or re.fullmatch(r"[-=~^\"*]{3,}", stripped) or TERM.match(stripped):
            blocks.end()
            continue
        bullet = BULLET.match(text)
        if bullet:
            blocks.end()
            depth = bullet.end()
            text = text[depth:]
        elif depth != indent:
            blocks.end()
        indent = depth
        directive = stripped.startswith("..")
        if stripped.endswith("::") or directive:
            literal = None if PROSE_DIRECTIVE.match(stripped) else depth
        if not directive:
            blocks.add(number, text)
        if stripped.endswith("::") or directive:
            blocks.end()
    blocks.end()
    return blocks.complete


def docstring_lines(node: ast.expr, source: list[str]) -> list[Line]:
    """Return the lines of a string statement, as they stand in the file, without its quotes."""
    last = node.end_lineno or node.lineno
    lines = [(i, source[i - 1]) for i in range(node.lineno, last + 1)]
    encoded = source[last - 1].encode()[: node.end_col_offset].decode()
    lines[-1] = (last, re.sub(r"(\"\"\"|'''|\"|')$", "", encoded))
    first = lines[0][1][node.col_offset :]
    opened = re.sub(r"^[a-zA-Z]*(\"\"\"|'''|\"|')", "", first)
    lines[0] = (node.lineno, " " * node.col_offset + opened)
    return lines


PRAGMA = re.compile(r"#\s*(?:noqa|type:|pragma|fmt:|isort:|mypy:|!|///|-{3,}|={3,})")


def comments(text: str) -> list[list[Line]]:
    """Return the comments of a module. Successive lines of comments belong together."""
    groups: list[list[Line]] = []
    before = (0, -1)  # line and column of a comment in a line of its own
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or PRAGMA.match(token.string):
            continue
        line, column = token.start
        alone = not token.line[:column].strip()
        content = (line, " " * (column + 1) + token.string[1:])
        if alone and groups and before == (line - 1, column):
            groups[-1].append(content)
        else:
            groups.append([content])
        before = (line, column) if alone else (0, -1)
    return groups


def python_blocks(text: str, tree: ast.Module) -> Iterator[list[Line]]:
    """Yield the blocks of prose in the docstrings and comments of a module."""
    source = text.splitlines()
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield from docstring_blocks(docstring_lines(value, source))
    for group in comments(text):
        yield from docstring_blocks(group)


# --- Sentences ---------------------------------------------------------------------------------

CODE = "\x01"  # stands for each character of something that is not prose, but counts as one word
MASKED = re.compile(
    r"(`+)(?!`).+?(?<!`)\1(?!`)"  # code spans and roles
    r"|(?<!\\)\$[^$]+\$"  # formulas
    r"|https?://\S*[^\s.,;:)\]}>]"
    r"|\b(?!e\.g|i\.e)[\w.]*[a-z_]\.[a-z_]\w*\b(?:\([^()]*\))?"  # dotted names and files
    r"|\b\w+\((?:[^()]|\([^()]*\))*\)"  # calls
    r"|\b\w*_\w*\b|\B--?[a-z][\w-]*"  # names with underscores, options
)
UNSEEN = re.compile(r"\]\([^)]*\)|\]\[[^\]]*\]|!?\[(?=[^\]]*\]\()|<[/\w!][^>]*>|\{[\w:-]+\}(?=`)")
END = re.compile(r"[.!?…][\"'”’)\]*_]*\s+(?=[\"'“‘(\[*]*(?:[A-ZÀ-Þ0-9\x01≤≥]|missdp\b))")
ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|cf|al|vs|etc|resp|approx|ca|Figs?|Tabs?|Secs?|Eqs?|Thm|Prop|Lem|Cor|Def"
    r"|Nos?|no|pp?|vol|ch|Dr|Mr|Ms|St|ed|eds)|\b[A-Z]|^\W*\d+)\.$"
)


class Sentence(NamedTuple):
    """One sentence with the lines that it covers."""

    first: int
    last: int
    text: str
    prose: str  # without code, which is replaced by a mark

    @property
    def words(self) -> int:
        """Number of words. A code span counts as one word."""
        return sum(any(c.isalnum() or c == CODE for c in word) for word in self.prose.split())


def masked(text: str) -> str:
    """Replace code, addresses and formulas, character by character."""
    text = UNSEEN.sub(lambda m: " " * len(m[0]), text)
    return MASKED.sub(lambda m: CODE * len(m[0]), text)


def sentences(block: list[Line]) -> Iterator[Sentence]:
    """Split a block of prose into sentences."""
    text, line_of = "", []
    for number, line in block:
        part = line.strip() + " "
        text += part
        line_of += [number] * len(part)
    prose = masked(text)
    start = 0
    ends = [m.end() for m in END.finditer(prose) if not ABBREVIATION.search(prose[: m.start() + 1])]
    for end in [*ends, len(text)]:
        stripped = text[start:end].rstrip()
        if stripped:
            yield Sentence(
                line_of[start], line_of[start + len(stripped) - 1], stripped, prose[start:end]
            )
        start = end


def problems_of(sentence: Sentence) -> Iterator[str]:
    """Yield the offences of a sentence, in words."""
    if sentence.words > MAX_WORDS:
        yield f"the sentence has {sentence.words} words. Write at most {MAX_WORDS}."
    for pattern, term in METAPHOR.items():
        if match := pattern.search(sentence.prose):
            yield f"'{match[0]}' is a metaphor. Use the plain term ({term})."


# --- Sections of docstrings --------------------------------------------------------------------

Function = ast.FunctionDef | ast.AsyncFunctionDef


def exported_names(root: Path) -> set[str]:
    """Return the names that a package lists in ``__all__``."""
    names: set[str] = set()
    for path in (root / PACKAGE).rglob("__init__.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else ()
            if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets):
                names |= {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
    return names


def exported_functions(tree: ast.Module, exported: Collection[str]) -> Iterator[Function]:
    """Yield the public functions of a module, and the public methods of exported classes."""
    for node in tree.body:
        if isinstance(node, Function) and not node.name.startswith("_"):
            yield node
        elif isinstance(node, ast.ClassDef) and node.name in exported:
            methods = (m for m in node.body if isinstance(m, Function))
            yield from (m for m in methods if not m.name.startswith("_"))


def own_nodes(function: Function) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those of functions and classes inside of it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)


def missing_sections(function: Function) -> list[str]:
    """Return the numpydoc sections that the docstring of a function lacks."""
    a = function.args
    parameters = [*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg]
    names = [p.arg for p in parameters if p is not None and p.arg not in ("self", "cls")]
    docstring = ast.get_docstring(function)
    if len(names) < MIN_PARAMETERS or docstring is None:
        return []
    nodes = list(own_nodes(function))
    raised = [n for n in nodes if isinstance(n, ast.Raise) and "NotImplemented" not in ast.dump(n)]
    returned = any(isinstance(n, ast.Return) and n.value is not None for n in nodes)
    yielded = any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in nodes)
    needed = {
        "Parameters": True,
        "Yields": yielded,
        "Returns": returned and not yielded,
        "Raises": bool(raised),
    }
    heading = r"(?m)^{}\n-{{3,}}$"
    allowed = {"Yields": "(?:Yields|Returns)"}
    return [
        name
        for name, need in needed.items()
        if need and not re.search(heading.format(allowed.get(name, name)), docstring)
    ]


def section_findings(
    path: str, tree: ast.Module, changed: set[int], exported: Collection[str]
) -> Iterator[Finding]:
    """Yield a finding for every exported function that lacks sections and was changed."""
    if not path.startswith(PACKAGE) or path.startswith(WITHOUT_SECTIONS):
        return
    if Path(path).name.startswith("_") and Path(path).name != "__init__.py":
        return
    for function in exported_functions(tree, exported):
        first = function.body[0]  # its docstring, after the lines of the signature
        lines = set(range(function.lineno, (first.end_lineno or first.lineno) + 1))
        names = {ast.unparse(d).rpartition(".")[2] for d in function.decorator_list}
        if changed & lines and "overload" not in names:
            for name in missing_sections(function):
                problem = f"the docstring has no section {name}. Add it (numpydoc)."
                yield Finding(path, function.lineno, problem, f"def {function.name}(...)")


# --- All files -----------------------------------------------------------------------------------

TARGETS = {
    "long": 0.03,  # share of sentences with more than 35 words, outside of tables
    "semicolons": 0.03,  # share of sentences with a semicolon
    "median": 18.0,  # words of the median sentence
    "metaphors": 0.0,  # number
    "headless": 0.0,  # number of headless clauses
}
COLUMNS = ("group", "sentences", *TARGETS)
FEWEST_WORDS = 4  # words of a sentence that counts in shares and in the median
FOLDERS = (".ci", "bench", "docs", "src", "tests")
GENERATED = ("bench/results",)  # written by scripts
LIMITS = "readability.toml"  # beside this file: limits of groups that miss a target

# A relative clause without a noun: "what clipping takes", "who skips a question". Indirect
# questions about a named kind or share, and direct questions, have their noun. "Whatever the limit"
# is an adverb.
HEADLESS = re.compile(
    r"(?<![\w-])(?:what(?!-if\b)(?! (?:if|kinds?|shares?|sorts?|parts?)\b)"
    r"|whatever(?! (?:the|its|their|an?)\b)|whoever)(?![\w-])|^\W*who\b",
    re.I,
)
QUOTED = re.compile(r"[\"“][^\"“”]*[\"”]|\*\*?(?:what|who|whatever)\*\*?", re.I)


class Measured(NamedTuple):
    """The readability of a group of files: the number of sentences, and the fields of `TARGETS`."""

    sentences: int
    long: float
    semicolons: float
    median: float
    metaphors: int
    headless: int


class Counted(NamedTuple):
    """A sentence of a file, with the rules that it breaks."""

    path: str
    sentence: Sentence
    long: bool
    semicolon: bool
    metaphor: bool
    headless: bool


def group_of(path: str) -> str:
    """Return the group of a file: a package of the source, or a folder of pages."""
    parts = path.split("/")
    depth = {"src": 3, "docs": 2}.get(parts[0], 1)
    if len(parts) == 1:
        return "root pages"
    return "/".join(parts[:-1][:depth])


def is_headless(sentence: Sentence) -> bool:
    """Whether a sentence has a relative clause that stands for a noun."""
    prose = sentence.prose.rstrip()
    return not prose.endswith("?") and bool(HEADLESS.search(QUOTED.sub(" ", prose)))


def counted(path: str, text: str) -> Iterator[Counted]:
    """Yield the sentences of a file. A sentence in a table is never long."""
    if path.endswith(".md"):
        blocks: Iterable[list[Line]] = markdown_blocks(enumerate(text.splitlines(), 1))
    else:
        blocks = python_blocks(text, ast.parse(text))
    lines = text.splitlines()
    for block in blocks:
        in_table = lines[block[0][0] - 1].lstrip().startswith("|")
        for sentence in sentences(block):
            yield Counted(
                path,
                sentence,
                long=sentence.words > MAX_WORDS and not in_table,
                semicolon=";" in sentence.prose,
                metaphor=any(pattern.search(sentence.prose) for pattern in METAPHOR),
                headless=is_headless(sentence),
            )


def all_files(root: Path) -> list[str]:
    """Return the paths of all pages and modules, from the root of the repository."""
    found = [path for path in root.glob("*.md") if path.is_file()]
    for folder in FOLDERS:
        found += [*(root / folder).rglob("*.md"), *(root / folder).rglob("*.py")]
    paths = (path.relative_to(root).as_posix() for path in found)
    return sorted(
        path
        for path in paths
        if not path.startswith(GENERATED) and "/_build/" not in f"/{path}" and "/." not in path
    )


def measured(sentences_of_group: Collection[Counted]) -> Measured:
    """Return the readability of the sentences of a group."""
    of = [one for one in sentences_of_group if one.sentence.words >= FEWEST_WORDS]
    number = max(1, len(of))
    return Measured(
        len(of),
        sum(one.long for one in of) / number,
        sum(one.semicolon for one in of) / number,
        float(median([one.sentence.words for one in of] or [0])),
        sum(one.metaphor for one in sentences_of_group),
        sum(one.headless for one in sentences_of_group),
    )


def read_limits(root: Path) -> dict[str, dict[str, float]]:
    """Return the limits of groups that miss a target, by group."""
    path = root / ".ci" / LIMITS
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write_limits(root: Path, groups: dict[str, Measured]) -> None:
    """Lower the limits to the measured values, rounded up. No limit rises."""
    before, lines = read_limits(root), ["# Limits of groups that miss a target. They only fall."]
    is_first = not (root / ".ci" / LIMITS).exists()
    for group, values in groups.items():
        kept = {}
        for name, target in TARGETS.items():
            value = getattr(values, name)
            step = 1 if target == 0 or name == "median" else 1000
            limit = -(-round(value * step, 6) // 1) / step
            if not is_first:
                limit = min(limit, before.get(group, {}).get(name, target))
            if limit > target:
                kept[name] = limit
        if kept:
            lines += ["", f'["{group}"]', *(f"{name} = {kept[name]:g}" for name in kept)]
    (root / ".ci" / LIMITS).write_text("\n".join(lines) + "\n", encoding="utf-8")


def table_of(groups: dict[str, Measured], limits: dict[str, dict[str, float]]) -> list[str]:
    """Return a line for each group. A value above its target carries its own limit."""
    rows = [COLUMNS]
    for group, values in groups.items():
        cells = [group, str(values.sentences)]
        for name in TARGETS:
            value, own = getattr(values, name), limits.get(group, {}).get(name)
            share = isinstance(value, float) and name != "median"
            shown = f"{value:.1%}" if share else f"{value:g}"
            if own is not None:
                shown += f" (limit {own:.1%})" if share else f" (limit {own:g})"
            cells.append(shown)
        rows.append(tuple(cells))
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    return [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def check_groups(root: Path, *, record: bool = False) -> list[str]:
    """Print the readability of each group. Return the broken limits, in words."""
    sentences_of: dict[str, list[Counted]] = {}
    for path in all_files(root):
        text = (root / path).read_text(encoding="utf-8")
        sentences_of.setdefault(group_of(path), []).extend(counted(path, text))
    groups = {group: measured(of) for group, of in sorted(sentences_of.items())}
    if record:
        write_limits(root, groups)
    limits = read_limits(root)
    everything = {"all": measured([one for of in sentences_of.values() for one in of])}
    print("\n".join(table_of(groups | everything, limits)))
    broken = []
    for group, values in groups.items():
        for name, target in TARGETS.items():
            value, limit = getattr(values, name), limits.get(group, {}).get(name, target)
            if value > limit + 1e-9:
                broken.append(f"{group}: {name} is {value:.4g}, and at most {limit:g} is allowed.")
    return broken


def list_sentences(root: Path, wanted: Collection[str]) -> None:
    """Print the sentences of some files and folders that break a rule of the first check."""
    for path in all_files(root):
        if not wanted or any(Path(path).is_relative_to(w) for w in wanted):
            for one in counted(path, (root / path).read_text(encoding="utf-8")):
                rules = ("long", "semicolon", "metaphor", "headless")
                if broken := [rule for rule in rules if getattr(one, rule)]:
                    shown = " ".join(one.sentence.text.split())
                    print(f"{path}:{one.sentence.first}: {', '.join(broken)}\n    {shown}")


# --- The check ---------------------------------------------------------------------------------


def findings_of(
    path: str, text: str, changed: set[int], exported: Collection[str] = ()
) -> list[Finding]:
    """Return the offences in the changed lines of one file.

    Parameters
    ----------
    path : str
        Path of the file from the root of the repository. Its suffix says how the text is read.
    text : str
        Content of the file.
    changed : set of int
        Numbers of the changed lines, from 1.
    exported : collection of str
        Names of classes whose public methods need sections.

    Returns
    -------
    list of Finding
        In the order of the lines.
    """
    findings: list[Finding] = []
    if path.endswith(".md"):
        blocks: Iterable[list[Line]] = markdown_blocks(enumerate(text.splitlines(), 1))
    else:
        tree = ast.parse(text)
        blocks = python_blocks(text, tree)
        findings += section_findings(path, tree, changed, exported)
    for block in blocks:
        if not changed.isdisjoint(range(block[0][0], block[-1][0] + 1)):
            for sentence in sentences(block):
                if not changed.isdisjoint(range(sentence.first, sentence.last + 1)):
                    shown = " ".join(sentence.text.split())
                    findings += [
                        Finding(path, sentence.first, problem, shown)
                        for problem in problems_of(sentence)
                    ]
    return sorted(findings, key=lambda finding: finding.line)


def main(arguments: list[str] | None = None, *, root: Path = ROOT) -> int:
    """Print the readability of all files, and all offences in changed lines. Return 1 if any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--since", default=SINCE, help="check the lines changed since this commit")
    parser.add_argument("--record", action="store_true", help="lower the limits of groups")
    parser.add_argument("--list", action="store_true", help="print sentences that count, and end")
    parser.add_argument("paths", nargs="*", help="check changed lines of these files and folders")
    options = parser.parse_args(arguments)
    wanted = tuple(str(Path(p).resolve().relative_to(root)) for p in options.paths)
    if options.list:
        list_sentences(root, wanted)
        return 0
    broken = [] if wanted else check_groups(root, record=options.record)
    changed = changed_lines(start_of(options.since, root=root), root=root)
    exported = exported_names(root)
    findings: list[Finding] = []
    for path, lines in sorted(changed.items()):
        if lines and (not wanted or any(Path(path).is_relative_to(w) for w in wanted)):
            text = (root / path).read_text(encoding="utf-8")
            findings += findings_of(path, text, lines, exported)
    for finding in [*findings, *broken]:
        print(finding)
    print(f"{len(findings)} findings in the lines changed since {options.since}.")
    return int(bool(findings or broken))


if __name__ == "__main__":
    sys.exit(main())
