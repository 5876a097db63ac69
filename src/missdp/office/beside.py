"""What the curator's report shows of real and synthetic rows: exact, so private."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from missdp.accounting import Guarantee
from missdp.accounting.exact import printed
from missdp.errors import MissingDependencyError
from missdp.evaluate import (
    classifier_f1,
    fidelity,
    marginal_distance,
    missing_fidelity,
    missing_mask,
    missing_patterns,
    rule_violations,
)
from missdp.evaluate.align import align
from missdp.evaluate.classifiers import holdout
from missdp.evaluate.fidelity import _SAID as SCORES
from missdp.evaluate.fidelity import plot_columns
from missdp.evaluate.printed import rounded
from missdp.office.attack import Attack, attacks
from missdp.office.membership import Membership, Refit, allowed, membership
from missdp.schema import Schema
from missdp.table import Table

_MOST_PAIRS = 30
_MOST_PATTERNS = 20
_POINTS = ("5 %", "25 %", "50 %", "75 %", "95 %")

Verdict = list[tuple[str, bool]]
"""Lines, and whether each is bad news."""


def beside(
    private: Any,
    synthetic: Any,
    *,
    schema: Schema,
    guarantee: Guarantee | None = None,
    control: Any = None,
    f1: bool = False,
    refit: Refit | None = None,
    refits: int = 0,
) -> dict[str, Any]:
    """Return what the page shows, by the names of its template; see ``curator_report``."""
    real, made = align(private, synthetic, schema)
    facts, verdict = _compared(real, made, schema, (private, synthetic))
    if control is not None:
        unseen = align(private, control, schema)[1]
        found = attacks(real, unseen, made, np.random.default_rng(0))
        facts["attacks"] = [*map(_attack, found)]
        verdict += _attacked(found)
    if f1:
        facts["f1"] = _f1(real, made)
    if guarantee is not None:
        facts |= _promised(guarantee)
        if refit is not None:
            facts["membership"] = gained = membership(refit, real, guarantee, refits=refits)
            verdict.append(_told_apart(gained))
    return {**facts, "verdict": verdict, "picture": _picture(real, made, schema)}


def _compared(
    real: Table, made: Table, schema: Schema, sources: tuple[Any, Any]
) -> tuple[dict[str, Any], Verdict]:
    """Return what the page shows of both tables, and what is said of it first."""
    complete = real.take(~missing_mask(real).any(axis=1).astype(bool))
    kept, holes = fidelity(real, made, schema=schema), missing_fidelity(real, made, schema=schema)
    n = min(len(real), len(made))
    facts: dict[str, Any] = {
        "sizes": f"{len(real):,} real rows, of which {len(complete):,} are complete, and "
        f"{len(made):,} synthetic ones.",
        "scores": [(SCORES[name], rounded(score, n)) for name, score in kept.scores.items()],
        "numbers": [
            (f"{name}, {which}", rounded(kept.ks[name], n), *(f"{x:.4g}" for x in table[name]))
            for name in kept.ks
            for which, table in (("real", kept.truth), ("synthetic", kept.synthetic))
        ],
        "number_heads": ["number", "KS", "mean", "SD", *_POINTS],
        "rates": [
            (name, rounded(rate, n), rounded(holes.synthetic_rates[name], n))
            for name, rate in holes.truth_rates.items()
        ],
        "patterns": _patterns(real, made),
    }
    means = []
    for k, name in ((1, "columns"), (2, "pairs"))[: len(schema)]:
        far = marginal_distance(real, made, k=k, schema=schema)
        dropped = marginal_distance(real, complete, k=k, schema=schema)
        facts[name] = [
            (" × ".join(clique), rounded(d, n), rounded(dropped.per_marginal[clique], n))
            for clique, d in far.worst(_MOST_PAIRS if k == 2 else len(schema)).items()
        ]
        means.append((far.mean, dropped.mean))
    verdict = [(kept.verdict, False), (_dropped(*means[-1], n), means[-1][0] > means[-1][1])]
    if schema.rulebook.bound:
        true, drawn = (rule_violations(source, schema=schema) for source in sources)
        facts["rules"] = [(t, f"{c:,}", f"{drawn.broken[t]:,}") for t, c in true.broken.items()]
        broken = f"{drawn.broken_rows:,} synthetic rows break a rule; {true.broken_rows:,} real do."
        verdict.append((broken, drawn.broken_rows > 0))
    return facts, verdict


def _dropped(far: float, dropped: float, rows: int) -> str:
    """Say how synthetic rows do beside rows of which the incomplete ones were dropped."""
    worse = "further away than" if far > dropped else "no further away than"
    return (
        f"Synthetic tables are {worse} what dropping incomplete rows would leave, without any "
        f"privacy: {rounded(far, rows)} and {rounded(dropped, rows)} on average."
    )


def _patterns(real: Table, made: Table) -> list[tuple[str, str, str]]:
    true, drawn = missing_patterns(real), missing_patterns(made)
    return [
        (", ".join(names) or "nothing", f"{count:,}", f"{drawn.get(names, 0):,}")
        for names, count in [*true.items()][:_MOST_PATTERNS]
    ]


def _attack(found: Attack) -> tuple[str, ...]:
    shares = (found.success / found.attempts, found.control / found.attempts, found.excess)
    return found.name, *(f"{share:.1%}" for share in shares), "YES" if found.found else "no"


def _attacked(found: Iterable[Attack]) -> Verdict:
    names = [attack.name.partition(":")[0] for attack in found if attack.found]
    if not names:
        return [("No attack does better on rows of the table than on rows it never saw.", False)]
    return [
        (f"ATTACKED: {', '.join(names)} does better on rows of the table than by chance.", True)
    ]


def _told_apart(found: Membership) -> tuple[str, bool]:
    """Say what a test of membership gained on refits, and whether the guarantee allows that."""
    low, high = found.interval
    said = (
        f"A test of membership gained {found.advantage:.0%} on {2 * found.refits} refits (true "
        f"less false positives; {low:.0%} to {high:.0%}); the guarantee allows {found.bound:.0%}."
    )
    return (f"BROKEN GUARANTEE: {said}" if found.broken else said), found.broken


def _promised(guarantee: Guarantee) -> Mapping[str, str]:
    """Return the guarantee in words, and what it says of attackers who look for one row."""
    return {
        "promise": f"{guarantee}\n\n{guarantee.explain()}",
        "bound": f"Whether a {guarantee.unit} is in the table: the guarantee bounds what any test "
        f"gains, true less false positives, to {printed(100 * allowed(guarantee))} percentage "
        "points. It does not bound what follows about a person from facts about people in general.",
    }


def _f1(real: Table, made: Table) -> list[tuple[str, str, str]]:
    """Return how well either rows teach, tested on the same real rows, which teach nothing."""
    taught, unseen = holdout(real, random_state=0)
    own, other = (
        classifier_f1(real, rows, test=unseen, random_state=0).by_attribute
        for rows in (taught, made)
    )
    return [(name, f"{score:.3f}", f"{other[name]:.3f}") for name, score in own.items()]


def _picture(real: Table, made: Table, schema: Schema) -> str | None:
    """Return the columns of both tables as a drawing, or None without the extra ``plot``."""
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder) / "columns.svg"
        try:
            plot_columns(real, made, drawn, schema=schema)
        except (MissingDependencyError, ImportError):
            return None
        return base64.b64encode(drawn.read_bytes()).decode()
