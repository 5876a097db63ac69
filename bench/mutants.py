"""Whether the tests find deliberate breaks: noise x .7, a flipped mask, a forgotten gate, ...

    python bench/mutants.py [--only ROOM] [--list] [--jobs 2]

Each line below breaks the package in one place and names the tests that must find it. A break is a
snippet of source text, wherever it stands in ``src/missdp`` (so that files may move), and what
replaces it. The checkout is copied to temporary folders and stays as it is. The
script fails if a snippet is not there exactly once, if a test is not there, or if one of the tests
passes nevertheless. Tests that do not start at all find nothing.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 300.0  # seconds: what hangs is found
FOUND, NO_TESTS = 1, (2, 3, 4, 5)  # exit codes of pytest


class Mutant(NamedTuple):
    """One break: where, what is wrong, the snippet, its replacement, and who must find it."""

    room: str
    what: str
    old: str
    new: str
    tests: str


# fmt: off
MUTANTS = [Mutant(*line) for line in (
    # units of protection
    ("synth", "a plan of all pairs forgets the unit", "a number from 2**-10 to 2**20\")\n        return budget\n", "a number from 2**-10 to 2**20\")\n        return self._budget\n",
     "tests/synth/test_units.py"),
    ("cli", "a copy of standard input outlives a killed run", "                if nameless.exists():\n", "                if not nameless.exists():\n",
     "tests/cli/test_pipes.py"),
    ("pricing", "estimators need no ledger", "        check_paid(values.schema.ledger, budget)\n", "        pass\n",
     "tests/pricing/test_refusals.py"),
    ("schema", "a part of a schema forgets who is protected", "facts: dict[str, Any] = {name: getattr(self, name) for name in (\"ledger\", \"unit\", \"weight\")}", "facts: dict[str, Any] = {name: getattr(self, name) for name in (\"ledger\", \"weight\")}",
     "tests/synth/test_units.py"),
    ("schema", "a part of a schema forgets who pays", "facts: dict[str, Any] = {name: getattr(self, name) for name in (\"ledger\", \"unit\", \"weight\")}", "facts: dict[str, Any] = {name: getattr(self, name) for name in (\"unit\", \"weight\")}",
     "tests/synth/test_units.py"),
    ("schema", "a part of a schema forgets what rows count", "facts: dict[str, Any] = {name: getattr(self, name) for name in (\"ledger\", \"unit\", \"weight\")}", "facts: dict[str, Any] = {name: getattr(self, name) for name in (\"ledger\", \"unit\")}",
     "tests/synth/test_weights.py"),
    ("accounting", "what is put together forgets its unit", "return unit_of(getattr(event, \"events\", ()))", "return ROW, 1",
     "tests/accounting/test_units.py"),
    ("accounting", "several rows cost as much as one", "        parts = rows if self.currency == \"pure\" else rows**2\n", "        parts = 1\n",
     "tests/accounting/test_units.py"),
    ("accounting", "a unit is charged like a row", "return (_of_group(of_row, self.bound),)", "return (of_row,)",
     "tests/accounting/test_units.py"),
    ("accounting", "mu of a group grows with the root of its rows", "float_up(exact(event.sensitivity) * rows)", "float_up(exact(event.sensitivity) * rows**0.5)",
     "tests/accounting/test_units.py"),
    ("accounting", "budgets mix units", "            unit_of((*held, *new))\n", "",
     "tests/accounting/test_units.py"),
    ("accounting", "parts of a budget for rows take units", "self.events[:1] if self._payer is None else _OF_ROWS", "self.events[:1]",
     "tests/accounting/test_units.py"),
    ("table", "what cannot be read stands alone", "(unit.missing == \"own\") & (units == -1)", "(unit.missing == \"own\") & (units < 0)",
     "tests/table/test_units.py"),
    ("table", "all rows of a unit take part", "kept[crowded] = False", "kept[crowded] = True",
     "tests/table/test_units.py"),
    ("table", "one row too many of a unit takes part", "order[rank < unit.max_rows]", "order[rank <= unit.max_rows]",
     "tests/table/test_units.py"),
    ("table", "the first rows of a unit take part", "np.lexsort((draws, units[crowded]))", "np.argsort(units[crowded], kind=\"stable\")",
     "tests/table/test_units.py"),
    ("table", "identifiers of one length are one", "words @ np.vstack([factors[:width], factors[-1:]])", "words @ np.vstack([0 * factors[:width], factors[-1:]])",
     "tests/table/test_units.py"),
    ("table", "rows of a database are read again for every pass", "if not isinstance(rows, _REPEATABLE):", "if False:",
     "tests/table/test_units.py"),
    ("table", "rows that are kept lie in a file with a name", "tempfile.SpooledTemporaryFile(room, prefix=\"missdp-\")  # noqa: SIM115\n        weakref.finalize(self, self._file.close)\n        self._lock = threading.Lock()  # several counts read the one file\n        self._batches", "open(tempfile.mkstemp()[1], \"w+b\")\n        self._lock = threading.Lock()\n        self._batches",
     "tests/table/test_units.py"),
    ("engines", "rows of a unit in Spark are drawn anew in every pass", "rows = rows.withColumn(\"draw\", functions.sha2(key, 256))", "rows = rows.withColumn(\"draw\", functions.sha2(functions.uuid().cast(\"binary\"), 256))",
     "-m slow tests/engines/test_spark.py::test_rows_are_drawn_by_unit_and_every_pass_sees_the_same"),
    ("engines", "rows of a unit in Spark are numbered as they come", "window.orderBy(*order)", "window.orderBy(own)",
     "-m slow tests/engines/test_spark.py::test_rows_are_drawn_by_unit_and_every_pass_sees_the_same"),
    ("testing", "neighbours by unit differ by one row", "return 1 if schema.unit is None else schema.unit.max_rows + 2", "return 1",
     "tests/synth/test_audit_of_units.py"),
    ("table", "large identifiers are taken for another", "return str(int(cell))  # exact", "return str(float(cell))  # exact",
     "tests/table/test_units.py"),
    ("table", "rows that were changed pass as chosen", "if self._read_as is None or self._read_as != self.schema:", "if self._read_as is False:",
     "tests/table/test_units.py"),
    # what rows count
    ("table", "shares of a unit are rounded up", "return STEPS // np.bincount(units)[units] if", "return -(-STEPS // np.bincount(units)[units]) if",
     "tests/synth/test_weights.py"),
    ("table", "weights have no upper end", "np.minimum(np.where(known, values, weight.default), weight.upper)", "np.where(known, values, weight.default)",
     "tests/synth/test_weights.py"),
    ("table", "negative weights count", "np.isfinite(values) & (values >= 0)", "np.isfinite(values)",
     "tests/synth/test_weights.py"),
    ("table", "squares are not of the bound", "of_each * (of_each / (bound * STEPS))", "of_each * (of_each / STEPS)",
     "tests/synth/test_weights.py"),
    ("accounting", "rows that count by the row cost as much as one", "return self.rows if self.counts == \"rows\" else 1", "return 1",
     "tests/synth/test_weights.py"),
    ("sources", "products are not weighed", "times = share if times is None else times * share // STEPS", "times = share if times is None else times",
     "tests/synth/test_weights.py"),
    ("mechanisms", "noise of rows on counts in steps", "counts + draw(self._scale, counts.shape)", "counts + draw(self.scale, counts.shape)",
     "tests/synth/test_weights.py"),
    ("mechanisms", "scores are in steps", "return counts if self.steps == 1 else counts / self.steps", "return counts",
     "tests/synth/test_weights.py"),
    ("estimate", "rows of a unit pass for independent", "np.sqrt(self._design / (self.n_rows * n))", "np.sqrt(1 / (self.n_rows * n))",
     "tests/synth/test_weights.py"),
    # mechanisms: noise, charges, sensitivities
    ("mechanisms", "levels that one row has pass with the noise alone", "if noisy[i] >= least))", "if noisy[i] >= 1))",
     "tests/mechanisms/test_open_levels.py"),
    ("mechanisms", "threshold of the continuous Gaussian", "return int(enough[0]) + 1", "return max(1, int(enough[0]))",
     "tests/mechanisms/test_open_levels.py"),
    ("mechanisms", "levels in order of appearance", "values = sorted(exact)  # so", "values = list(exact)  # so",
     "tests/synth/test_open_levels.py"),
    ("mechanisms", "categories that no row has are found", "isinstance(cell, Unreadable) or not count:", "isinstance(cell, Unreadable):",
     "tests/mechanisms/test_open_levels.py"),
    ("table", "true among cells is no code", "if self._levels.read(composed(cell)) == OUTSIDE:", "if self._levels.read(cell) == OUTSIDE:",
     "tests/synth/test_open_levels.py"),
    ("synth", "caps of other levels than those that were found", "(\"_open_names\", \"_unit\", \"_weight\")", "(\"_unit\", \"_weight\")",
     "tests/synth/test_open_levels.py"),
    ("synth", "failures of levels are not taken out of delta", "return float_down(exact(delta) - exact(_failure_of(delta, names)))", "return delta",
     "tests/synth/test_open_levels.py"),
    ("synth", "each open column may fail as often as all", "each = float_down(exact(_failure_of(delta, names)) / len(names))", "each = _failure_of(delta, names)",
     "tests/synth/test_open_levels.py"),
    ("synth", "failures are left out of the guarantee", "events = (*spent.events, *failures(delta, names))", "events = spent.events",
     "tests/synth/test_open_levels.py"),
    ("accounting", "what stands beside a reserved part is free", "self._record(flatten((part.filter(), *more)), (part, *more), conditions)", "self._record(flatten(part.filter()), (part,), conditions)",
     "tests/synth/test_open_levels.py"),
    ("table", "open levels are read as one level", "        check_found((self._attribute,))\n", "",
     "tests/synth/test_open_levels.py"),
    ("inference", "rows drawn among wanted levels are not weighted back", "return level, np.where(part > 0, ratio, np.inf)", "return level, np.ones_like(ratio)",
     "tests/synth/test_selected.py"),
    ("inference", "the share of wanted rows in a tree is forgotten", "min(1.0, exp(log_part - log_z))", "1.0",
     "tests/synth/test_selected.py"),
    ("synth", "levels of one attribute alone decide which codes are asked for", "found[name] = maybe | lost", "found[name] = maybe & lost",
     "tests/synth/test_selected.py"),
    ("mechanisms", "noise of counts x .7", "counts + draw(self._scale, counts.shape)", "counts + draw(0.7 * self._scale, counts.shape)",
     "tests/mechanisms/test_noise.py"),
    ("mechanisms", "levels of a tree change after the charge", 'object.__setattr__(self, "levels", tuple(map(int, self.levels)))', "pass",
     "tests/mechanisms/test_door.py"),
    ("mechanisms", "a row is filled in ways of its own twice", "made.keep is None and made.ways.fits(size)", "made.keep is None",
     "tests/mechanisms/test_row_door.py"),
    ("mechanisms", "warnings of one thread end the silence of others", "if not self._inside:\n                self._before.__exit__", "if True:\n                self._before.__exit__",
     "tests/mechanisms/test_row_door.py"),
    ("mechanisms", "exponent of the Gaussian doubled", "x = x * x / 2", "x = x * x",
     "tests/mechanisms/test_noise_exact.py"),
    ("mechanisms", "tail without a sign", "value = -1 - value if _some_bits(words, 1, width) else value", "value = value",
     "tests/mechanisms/test_noise_exact.py"),
    ("mechanisms", "noise that everybody can repeat", "np.frombuffer(os.urandom(8 * count), dtype=np.uint64)", "np.random.default_rng(0).integers(0, 2**63, count, dtype=np.uint64)",
     "tests/mechanisms/test_noise_exact.py"),
    ("mechanisms", "seed not recorded in the guarantee", "conditions = (ExplicitSeed(),)", "conditions = ()",
     "tests/mechanisms/test_noise.py"),
    ("mechanisms", "noise worth twice the rho", "sigma = sensitivity * math.sqrt(1 / (2 * rho)) if rho", "sigma = sensitivity * math.sqrt(1 / (4 * rho)) if rho",
     "tests/mechanisms/test_door.py"),
    ("mechanisms", "dropped charge", "self._budget.charge(*events, conditions=(*conditions, *self._conditions))", "pass",
     "tests/mechanisms/test_door.py"),
    ("mechanisms", "charged after it was computed", "if paid is None:\n            self._charge", "known = exact()\n        exact = lambda: known\n        if paid is None:\n            self._charge",
     "tests/mechanisms/test_door.py"),
    ("mechanisms", "answers in a fork", "if self._budget is not None:  # a fork", "if False:  # a fork",
     "tests/mechanisms/test_row_door.py"),
    ("mechanisms", "a query of a stranger's type is measured", "if type(query) not in self._queries:", "if False:",
     "tests/mechanisms/test_door.py"),
    ("mechanisms", "a score is answered like a count", "if type(value) is not kind:", "if False:",
     "tests/mechanisms/test_door.py"),
    ("mechanisms", "errors behind an answer tell of rows", "with replacing(Exception, by=_untold), no_warnings():", "with no_warnings():",
     "tests/mechanisms/test_door.py tests/mechanisms/test_pair_rates.py"),
    ("mechanisms", "gate of cells that rules may fill", "self._strategy.gate(clique, self._schema) - self._modelled.filled", "self._strategy.gate(clique, self._schema)",
     "tests/mechanisms/test_door_with_rules.py"),
    ("mechanisms", "tree charged at sigma, not sqrt(L) sigma", "math.nextafter(math.sqrt(deep), math.inf)", "1.0",
     "tests/synth/test_cuts.py"),
    ("mechanisms", "tree charged at sqrt(L) scales, not L scales", "return float(deep) if norm == 1 else math", "return math",
     "tests/synth/test_cuts.py"),
    ("mechanisms", "cells outside the range that a tree was told are lost", "place = np.clip(np.arange(len(cells)), start, stop - 1) - start", "place, cells = np.arange(stop - start), cells[start:stop]",
     "tests/synth/test_cuts.py"),
    ("mechanisms", "cells below the range that a tree was told count at its end", "place = np.clip(np.arange(len(cells)), start, stop - 1) - start", "place = np.minimum(np.arange(len(cells)), stop - 1) - start",
     "tests/synth/test_cuts.py"),
    ("inference", "relations inside bins go on in ranks", "logit((rankdata(values[seen]) - 0.5) / seen.sum())", "rankdata(values[seen])",
     "tests/synth/test_inside.py"),
    ("inference", "strong trends lean on nothing", "abs(plain.trend) < max(_LEAST_TREND,", "True or abs(plain.trend) < max(_LEAST_TREND,",
     "tests/inference/test_smooth.py tests/synth/test_cuts.py"),
    ("inference", "nominal attributes have no trend of those that tell them", "if ordered[pair[0]] == ordered[pair[1]]:", "if True:",
     "tests/inference/test_smooth.py"),
    ("inference", "ordered attributes are drawn after those that tell them", "if order is None and ordered is not None:", "if False:",
     "tests/inference/test_heads.py"),
    ("inference", "holes that a skip pattern ties count as chance", "np.where(tied, 1.0, rows[:, one])", "rows[:, one]",
     "tests/inference/test_masks.py"),
    ("inference", "codes for not applicable are never skipped", "if evidence > _EVIDENCE:", "if False:",
     "tests/inference/test_masks.py"),
    ("inference", "codes count as skipped where values alone are", "expected = min(expected, rate * n_rows * own / max(own + others, 1.0))", "pass",
     "tests/inference/test_masks.py"),
    ("inference", "what follows one filter question tells of each other", "for b, d in told if c == d}", "for b, d in told if False}",
     "tests/inference/test_masks.py"),
    ("inference", "trends of missing rates are no evidence", "_EVIDENCE * self._trend[1] / _TREND**2 if self.ordered else 0.0", "0.0",
     "tests/inference/test_masks.py"),
    ("inference", "cells past the last one have noise", "there = np.arange(1 << level) << (depth - level) < size", "there = np.arange(1 << level) >= 0",
     "tests/inference/test_dyadic.py src/missdp/inference/dyadic.py"),
    ("inference", "undivided nodes ignore what is below them", "value = np.where(there, value + own * (known[level] - value), 0.0)", "value = np.where(there, known[level], 0.0)",
     "tests/inference/test_dyadic.py"),
    ("estimate", "groups lie alike inside bins", "(even + lean * more).reshape(shape)", "even.reshape(shape)",
     "tests/estimate/test_estimate.py"),
    ("estimate", "hidden bins are even", "known = np.bincount(of, shares)[of] > 0", "known = np.bincount(of, shares)[of] >= 0",
     "tests/estimate/test_estimate.py"),
    ("inference", "parts that are joined keep their order", "self._of(near, sum(parts))", "alone",
     "tests/inference/test_oracle.py"),
    ("inference", "noise further out hides heaps", "_HEAP = 4.5", "_HEAP = 1e9",
     "tests/inference/test_dyadic.py"),
    ("synth", "a heap at 0 is spread over its interval", "& (cells <= _NARROW) & ~single", "& (cells < 0)",
     "tests/synth/test_cuts.py"),
    ("inference", "rows at an end lie evenly", "if rows >= even * cells:", "if True:",
     "tests/inference/test_dyadic.py"),
    ("synth", "rows beyond a range are a heap at its end", "more if more > _PILED * std else 0.0", "0.0",
     "tests/synth/test_cuts.py"),
    ("inference", "cells that noise makes negative weaken trends", "slope = float((found * np.square(product)).sum()) - trend**2", "break",
     "tests/inference/test_smooth.py tests/synth/test_cuts.py"),
    ("synth", "small and large numbers share a bin around spikes", "> _LEAST_BIN:", "> 1:",
     "tests/synth/test_cuts.py"),
    ("inference", "what a model lacks is put back as if none of it was clipped", "self.gains.get(pair, 1.0) * mean + self.pairs[pair]", "mean + self.pairs[pair]",
     "tests/inference/test_clipping.py"),
    ("synth", "finer codes are drawn each by itself", "ranks, sizes, rng, free=numbers)", "ranks, sizes, rng, free=())",
     "tests/synth/test_coordinates.py"),
    ("synth", "what noise put far out stays there", "moved[2 + side, inner] = shares", "moved[2 + side, inner] = 0 * shares",
     "tests/synth/test_coordinates.py"),
    ("estimate", "products of two numbers are not read", "if left and right:", "if False:",
     "tests/estimate/test_estimate.py"),
    ("estimate", "released sums tell nothing of tails", "self.beyond.drawn(further / rows,", "self.beyond.drawn(0 * further,",
     "tests/estimate/test_estimate.py"),
    ("estimate", "what clipping takes is taken to be known", "_CLIPPED * (1 - self._left[0][a])", "0.0 * (1 - self._left[0][a])",
     "tests/estimate/test_estimate.py"),
    ("estimate", "intervals are not cut at public bounds", "np.clip(ends, least, most)", "ends",
     "tests/estimate/test_estimate.py"),
    ("estimate", "rows remain in the gap between intervals that noise hides", "(middle >= first)", "np.isin(middle, first)",
     "tests/estimate/test_estimate.py"),
    ("estimate", "tails do not go on as they were found to fall", "usual[side] = np.maximum(usual[side], rows * _tail(off, tail, ends, least))", "del off, tail, ends",
     "tests/estimate/test_estimate.py"),
    ("estimate", "a bin that a draw of noise empties makes slopes infinite", "np.maximum(law[:size], self.least)", "np.maximum(law[:size], 1e-9)",
     "tests/estimate/test_estimate.py"),
    ("synth", "what lies beyond is taken from a bin, and its heap stays", "most[side] = self.shares[last]", "most[side] = 0 * self.shares[last]",
     "tests/synth/test_coordinates.py"),
    ("estimate", "no spike is allowed for beyond where rows were found", "return np.asarray(np.interp(long, _HEAVY, _SPIKE))", "return np.full(len(long), 1e-9)",
     "tests/estimate/test_estimate.py"),
    ("synth", "tables of a workload spend more than was planned", "noise = Noise.worth(cost)\n            counts = door", "noise = Noise(\"gaussian\", Noise.worth(cost).scale / 2)\n            counts = door",
     "tests/synth/test_top_up.py"),
    ("synth", "caps count tables of a workload behind too large a gate", "gates = self._gates([[schema.names[a] for a in clique] for clique in named], schema)", "gates = self._gates([schema.names for _ in named], schema)",
     "tests/synth/test_top_up.py"),
    ("inference", "columns that are missing together come apart", "masks.correlation = _tied(found, groups)", "masks.correlation = found",
     "tests/synth/test_top_up.py"),
    ("inference", "functions of another column are not kept", "return {**known, **{c: t & known.get(c, True) for c, t in found.items()}}", "return {**known}",
     "tests/inference/test_smooth.py"),
    ("mechanisms", "selection at twice its epsilon", "scale_for(self.sensitivity, self.epsilon, count=2)", "scale_for(self.sensitivity, self.epsilon, count=1)",
     "tests/mechanisms/test_selection.py"),
    ("mechanisms", "permute-and-flip charged as bounded range", "kind = SelectionEvent if self.method == \"exponential\" else PureEvent", "kind = SelectionEvent",
     "tests/mechanisms/test_selection.py"),
    ("mechanisms", "products charged at half their sensitivity", "return float(self.bound)", "return float(self.bound) / 2",
     "tests/mechanisms/test_products.py"),
    ("mechanisms", "squares of numbers are released twice as large as they are clipped", "for part in (blocks, self._further)", "for part in (blocks, {n: 2 * t for n, t in self._further.items()})",
     "tests/mechanisms/test_products.py tests/synth/test_coordinates.py"),
    ("mechanisms", "gradients are not clipped", "scale = self.radius / np.maximum(self.clip / np.where(largest > 0, largest, 1.0), norm)", "scale = self.radius * np.where(largest > 0, largest, 1.0) / self.clip",
     "tests/mechanisms/test_training.py"),
    ("mechanisms", "every row is in the sample", "exact.sum(np.flatnonzero(source.coins(self.rate, len(exact))))", "exact.total",
     "tests/mechanisms/test_training.py"),
    ("mechanisms", "a coin that is a little too likely", "self._words(count) < np.uint64(int(Fraction(rate) * 2**64))", "self._words(count) <= np.uint64(int(Fraction(rate) * 2**64))",
     "tests/mechanisms/test_training.py"),
    ("mechanisms", "one of many steps is charged", "steps=self.steps,\n            discrete=True", "steps=1,\n            discrete=True",
     "tests/mechanisms/test_training.py"),
    ("mechanisms", "steps beyond what was charged", "self._left[charged] = left - 1", "self._left[charged] = left",
     "tests/mechanisms/test_training.py"),
    ("mechanisms", "a row for which the gradient fails stops the fit", "with contextlib.suppress(Exception), no_warnings():  # either would tell of the rows", "with no_warnings():",
     "tests/mechanisms/test_training.py"),
    ("mechanisms", "training reads rows with a hole behind the gate", "codes[n] < sizes[n] - 1 for n in holed", "codes[n] < sizes[n] for n in holed",
     "tests/mechanisms/test_training.py"),
    ("mechanisms", "smooth noise x .5", "Fraction(bound) / Fraction(self.alpha) / self.grid", "Fraction(bound) / Fraction(self.alpha) / self.grid / 2",
     "tests/mechanisms/test_smooth.py"),
    ("mechanisms", "a number and its scale for half of what they cost", "return self.shape * max(self.alpha, beta)", "return self.shape * max(self.alpha, beta) / 2",
     "tests/mechanisms/test_smooth.py"),
    ("mechanisms", "the scale of noise is told exactly", "return m[0] / v[1], m[1] / v[0]", "return _ONE, _ONE",
     "tests/mechanisms/test_smooth.py"),
    ("mechanisms", "error bars x .8", "return _quantile(level, self.shape, self.dimension)", "return 0.8 * _quantile(level, self.shape, self.dimension)",
     "tests/mechanisms/test_smooth.py"),
    ("mechanisms", "Gaussian noise that forgets recipients", "sigma = (own + donee * self.donees) / math.sqrt(2 * rho)", "sigma = own / math.sqrt(2 * rho)",
     "tests/mechanisms/test_smooth.py"),
    ("mechanisms", "error of a question quotes a cell", "with replacing(Exception, by=failed), no_warnings():\n            rows = Rows(cells, self.reads, self.applies)", "with no_warnings():\n            rows = Rows(cells, self.reads, self.applies)",
     "tests/mechanisms/test_row_door.py"),
    ("mechanisms", "sums are not clipped", "np.rint(np.clip(shares, -1.0, 1.0) * QUANTA)", "np.rint(shares * QUANTA)",
     "tests/mechanisms/test_row_door.py"),
    ("mechanisms", "a charge is answered as often as asked", "left = self._left.pop(charged, 0)", "left = self._left.get(charged, 0)",
     "tests/mechanisms/test_row_door.py"),
    ("mechanisms", "a question reads what it did not name", "if name not in self._reads:\n", "if False:\n",
     "tests/mechanisms/test_row_door.py"),
    ("mechanisms", "filled values beyond their bounds", "np.asarray(np.clip(numbers, attribute.lower, attribute.upper))", "np.asarray(numbers)",
     "tests/mechanisms/test_row_door.py"),
    ("mechanisms", "rate of pairs without the count of rows", "return math.isqrt(_STEPS**2 + _ROW**2) + 1", "return _STEPS",
     "tests/mechanisms/test_pair_rates.py"),
    # sources: exact counts
    ("sources", "doubled row between two chunks", "c[start : start + CHUNK_ROWS] for name, c in codes.items()}\n        n_chunk = min(CHUNK_ROWS, n_rows - start)", "c[start : start + CHUNK_ROWS + 1] for name, c in codes.items()}\n        n_chunk = min(CHUNK_ROWS + 1, n_rows - start)",
     "tests/sources/test_kernel.py"),
    ("sources", "complete rows that are not", "source.taken(~source.table.incomplete_rows())", "source",
     "tests/mechanisms/test_door.py"),
    ("sources", "gate of all nullable attributes", "return nullable & frozenset(clique) if self.rows == \"observed\"", "return nullable if self.rows == \"observed\"",
     "tests/mechanisms/test_door.py"),
    ("sources", "pairs counted twice", "return int(violating_partners(denial, rows).sum()) // 2", "return int(violating_partners(denial, rows).sum())",
     "tests/mechanisms/test_pair_rates.py"),
    ("sources", "only the first kind of hole is counted", "counts[(*first, slice(attribute.size, None))]", "counts[(*first, slice(attribute.size, attribute.size + 1))]",
     "tests/sources/test_modelled.py"),
    ("sources", "streamed rows with holes are counted as complete", "return {n: c[seen] for n, c in codes.items()}, int(seen.sum())", "return codes, n_rows",
     "tests/sources/test_streamed_strategies.py"),
    ("sources", "filling changes what was observed", "holes = codes >= np.array(laws.sizes, dtype=np.int64)", "holes = codes >= np.array(laws.sizes, dtype=np.int64) - 1",
     "tests/sources/test_filling.py"),
    ("engines", "a task goes on where another stopped", "counter = copy.copy(self.counter)  # without counts", "counter = self.counter",
     "tests/engines/test_spark.py"),
    ("sources", "squares of numbers left out of the length of a row's vector", "self.alone**2 * (total + rest)", "self.alone**2 * total",
     "tests/mechanisms/test_products.py tests/synth/test_coordinates.py"),
    ("sources", "clip of a row's vector omitted", "np.floor(np.minimum(factor, self.most))", "np.floor(np.minimum(np.inf * factor, self.most))",
     "tests/mechanisms/test_products.py"),
    # risk in plain words, plans and the curator's report
    ("accounting", "an exception is as rare as delta says", "return epsilon - math.log1p(-delta / chance)", "return epsilon",
     "tests/accounting/test_risk.py"),
    ("accounting", "odds of a prior of a half, whatever the prior", "raised = math.log(self.prior) - math.log1p(-self.prior) + loss", "raised = loss",
     "tests/accounting/test_risk.py"),
    ("accounting", "exceptions are left out where delta is above 0", "pure = guarantee.delta == 0\n", "pure = guarantee.delta < 1e-3\n",
     "tests/accounting/test_risk.py"),
    ("accounting", "noise of as many people as round up", "people = printed(self.noise, digits=2, up=False)", "people = printed(self.noise, digits=2)",
     "tests/accounting/test_risk.py"),
    ("office", "names and levels of a report are markup", "        autoescape=page,\n", "        autoescape=False,\n",
     "tests/office/test_curator.py tests/office/test_dossier.py"),
    ("office", "a private page beside a release", "if folder in beside or any(True for form in _RELEASED for _ in folder.glob(form)):", "if folder in beside:",
     "tests/office/test_curator.py"),
    ("office", "copied rows are nothing to mind", "return self.success - self.control > _SURE * max(error, 1.0)", "return self.success - self.control > 100 * _SURE * max(error, 1.0)",
     "tests/office/test_curator.py"),
    ("office", "a seal does not cover variances", "        if pa.types.is_floating(column.type):\n            found.update(", "        if pa.types.is_floating(column.type):\n            if name == \"variance\":\n                continue\n            found.update(",
     "tests/office/test_dossier.py"),
    ("office", "a guarantee of any schema", "if not (counted and weighed and schema.of_rows in (own.of_rows, uncut(own.of_rows))):", "if False:",
     "tests/office/test_dossier.py"),
    ("office", "a weighted schema opens an unweighted release", "weighed = schema.weight in (None, own.weight)", "weighed = True",
     "tests/synth/test_units.py"),
    ("office", "numbers of a file count as released", "if not record or said.get(_SEAL) != _seal(record, table):", "if not record:",
     "tests/office/test_dossier.py"),
    ("office", "a file is believed without saying so", "model.guarantee_ = model.guarantee_.with_conditions(TakenFromFile())", "pass",
     "tests/office/test_dossier.py"),
    ("office", "a broken guarantee is not called out", "return self.interval[0] > self.bound", "return self.interval[1] > 1 + self.bound",
     "tests/office/test_curator.py"),
    ("office", "a dossier beside a curator's page", "            if _OWN in file.read(4096):", "            if False:",
     "tests/office/test_curator.py"),
    ("office", "made-up cells go missing by what they hold", "MCAR(rate=self.missing).apply(ruled, random_state=rng)", "MCAR(rate=self.missing).apply(ruled, random_state=seed)",
     "tests/office/test_plan.py"),
    ("inference", "an attribute without slopes fails", "slope, other_slope = self.slopes.get((a, b)), self.slopes.get((b, a))", "slope, other_slope = self.slopes[a, b], self.slopes.get((b, a))",
     "tests/inference/test_masks.py"),
    # accounting: what noise costs
    ("accounting", "Laplace noise at half its cost", "return Fraction(shift) / Fraction(event.scale)", "return Fraction(shift) / Fraction(event.scale) / 2",
     "tests/accounting/test_costs.py"),
    ("accounting", "wrong conversion from pure DP to zCDP", "return pure_cost(event) ** 2 / 2", "return pure_cost(event) ** 2 / 8",
     "tests/accounting/test_costs.py"),
    ("accounting", "replace-one at twice the rho", "\"rho\": 4 * self.rho", "\"rho\": 2 * self.rho",
     "tests/accounting/test_records.py"),
    ("accounting", "what is spent is forgotten", "self._spent, self._rho, self._failure = sums", "_, self._rho, self._failure = sums",
     "tests/accounting/test_filters.py"),
    ("accounting", "a tenth too much is accepted", "total = exact(self._epsilon if self._cost is None else self._cost.amount)", "total = exact(self._epsilon if self._cost is None else self._cost.amount) * Fraction(11, 10)",
     "tests/accounting/test_filters.py"),
    ("accounting", "a part is set aside for nothing", "self._record(flatten((part.filter(), *more)), (part, *more), conditions)", "self._record((), (part, *more), conditions)",
     "tests/accounting/test_filters.py"),
    ("accounting", "discrete noise taken for continuous noise", "return Fraction(_ROUNDED)", "return Fraction(0)",
     "tests/accounting/test_gdp.py"),
    ("accounting", "conversion from Rényi DP without a term", "np.log1p(-1 / a) - (math.log(delta) + np.log(a)) / (a - 1)", "np.log1p(-1 / a) - (math.log(delta) + 2 * np.log(a)) / (a - 1)",
     "tests/accounting/test_accountants.py"),
    ("accounting", "sampling amplifies too much", "terms = log_choose + k * math.log(rate) + xlog1py(order - k, -rate)", "terms = log_choose + (k + 1) * math.log(rate) + xlog1py(order - k, -rate)",
     "tests/accounting/test_costs.py"),
    ("accounting", "claims below what events prove", "if self.events and not self._proven():", "if False:",
     "tests/accounting/test_guarantee.py"),
    ("accounting", "conditions lost in a composition", "conditions = tuple(c for part in parts for c in part.conditions)", "conditions = self.conditions",
     "tests/accounting/test_guarantee.py"),
    ("accounting", "a fork spends the budget again", "if self._process != (os.getpid(), _FORKS[-1]):", "if False:",
     "tests/accounting/test_exact.py"),
    ("accounting", "undeclared facts are accepted unasked", "if undeclared == \"refuse\":", "if undeclared == \"never\":",
     "tests/mechanisms/test_domain.py"),
    ("accounting", "sums rounded to the nearest float", "while near < math.inf and read(near) < number:", "while False:",
     "tests/accounting/test_exact.py"),
    # ground truth: amplification by missing values
    ("ground_truth", "amplification linear in epsilon", "return math.log1p(p * math.expm1(cost))", "return p * cost",
     "tests/ground_truth/test_numbers.py"),
    ("ground_truth", "conditions that a mask may break", "if not condition.holds_for_every_mask:", "if False:",
     "tests/ground_truth/test_guarantees.py"),
    ("ground_truth", "conditions hold for every mask unless they say otherwise", "holds_for_every_mask: ClassVar[bool] = False", "holds_for_every_mask: ClassVar[bool] = True",
     "tests/ground_truth/test_guarantees.py"),
    ("accounting", "limits on a table join what is said of the ground truth", "condition.holds_for_every_mask or isinstance(condition, Assumption)", "True",
     "tests/accounting/test_guarantee.py"),
    ("ground_truth", "one direction of two", "return max(add, float(factor[0])", "return (float(factor[0])",
     "tests/ground_truth/test_numbers.py"),
    ("ground_truth", "undeclared attributes lose half their values", "math.prod(observed.get(name, 1.0) for name in sorted(as_gate(gate)))", "math.prod(observed.get(name, 0.5) for name in sorted(as_gate(gate)))",
     "tests/ground_truth/test_guarantees.py"),
    ("ground_truth", "selections cost nothing", "height += np.maximum(costs.selections * twice[-1], costs.unselected * twice)", "height += 0.0",
     "tests/ground_truth/test_numbers.py"),
    ("ground_truth", "replace-one amplified as add-remove", "return (2.0 * epsilon if epsilon <= plain", "return (epsilon if epsilon <= plain",
     "tests/ground_truth/test_guarantees.py"),
    ("ground_truth", "the least likely gate", "for name in others), reverse=True)", "for name in others))",
     "tests/ground_truth/test_small_world.py"),
    # statistics: donors and smooth sensitivity
    ("statistics", "smooth sensitivity x .5", "return max(best, tail if tail > best else 0.0) * _ROUND_UP", "return max(best, tail if tail > best else 0.0) * 0.5",
     "tests/statistics/test_donors.py"),
    ("statistics", "smooth sensitivity falls twice as fast", "np.max(np.exp(-beta * np.arange(terms))", "np.max(np.exp(-2 * beta * np.arange(terms))",
     "tests/statistics/test_donors.py"),
    ("statistics", "a donor shares with one more than there are", "np.minimum(tied, j - gone) + 1", "np.minimum(tied, j - gone) + 2",
     "tests/statistics/test_sensitivity.py"),
    ("statistics", "a donor that goes shares with itself", "before - taken[site], 0)", "before, 0)",
     "tests/statistics/test_donors.py"),
    ("statistics", "no nearer donor ever goes", "gone = np.minimum(nearer, j)", "gone = np.minimum(nearer, 0)",
     "tests/statistics/test_donors.py"),
    ("statistics", "ways counted in full", "(alike[part] / many[part])[owner]", "(alike[part] / 1.0)[owner]",
     "tests/statistics/test_donors.py"),
    ("statistics", "what a row has replaced", ">= self.schema[name].missing_code)\n                filled", ">= 0)\n                filled",
     "tests/statistics/test_donors.py"),
    ("statistics", "a row that changes its group leaves none", "change=ask.moved(a.name) / half if stays else None", "change=ask.moved(a.name) / half",
     "tests/statistics/test_sensitivity.py"),
    ("statistics", "what cannot be answered is charged", "self._is_averaged(ask, query)  # what", "pass  # what",
     "tests/statistics/test_refusals.py"),
    ("statistics", "a mean of k donors moves half as far", "return 1 / self.k if self.aggregate_of", "return 0.5 / self.k if self.aggregate_of",
     "tests/statistics/test_sensitivity.py"),
    ("statistics", "filled cells taken for a row's own", "shared=frozenset(self.impute),", "shared=frozenset(),",
     "tests/statistics/test_sensitivity.py"),
    ("mechanisms", "filled where nothing applies", "return filled.where(self.applies(name)[0][filled.rows])", "return filled",
     "tests/mechanisms/test_rules_at_the_door.py"),
    ("statistics", "donors with a hole of their own", "give[where], take[where] = whole & valued, lacks", "give[where], take[where] = valued, lacks",
     "tests/statistics/test_donors.py"),
    ("statistics", "the worst case without open rows", "open_rows = box[\"in_unknown\"][1] + box[\"may_unknown\"][1]", "open_rows = box[\"in_unknown\"][1]",
     "tests/statistics/test_worst_case.py"),
    # pricing: what a pipeline costs
    ("pricing", "a step's price forgotten", "domain, distance = stage.domain_after, stage.distance_after", "domain = stage.domain_after",
     "tests/pricing/test_stability.py"),
    ("pricing", "the model's price for the whole pipeline", "return self.steps[-1].distance_after if self.steps else NEIGHBOURS", "return NEIGHBOURS",
     "tests/pricing/test_price.py"),
    ("pricing", "a test that passes too easily", "(math.log(1 / (2 * failure)) + _TAIL_ROOM) / epsilon", "(math.log(1 / (2 * failure)) / 2) / epsilon",
     "tests/pricing/test_price.py"),
    ("pricing", "rows are not clipped", "np.where(inside, filled, scaled)", "filled",
     "tests/pricing/test_stability.py tests/pricing/test_tables.py"),
    ("pricing", "one of many steps is priced", "return steps * (shift / sigma + slack) ** 2 / 2 if", "return (shift / sigma + slack) ** 2 / 2 if",
     "tests/pricing/test_privacy_maps.py"),
    ("pricing", "radius for diameter: half the sensitivity of a mean", "replaced=spread * domain.diameter / n", "replaced=spread * domain.radius / n",
     "tests/pricing/test_exact_sensitivity.py"),
    ("pricing", "gradients of a loss beyond its Lipschitz constant", "np.asarray(X.T @ (slopes * shorter) / X.shape[0])", "np.asarray(X.T @ slopes / X.shape[0])",
     "tests/pricing/test_exact_sensitivity.py"),
    ("pricing", "rows are kept after the fit", "self._values = self._target = None\n        self._known.clear()", "pass",
     "tests/pricing/test_non_interference.py"),
    ("pricing", "the price of what another thread asks", "return priced[1]", "return self._priced[1]",
     "tests/pricing/test_replace_one.py"),
    ("pricing", "questions of strangers are answered", "        self._check(question)\n        if isinstance(question, VectorQuery):", "        if isinstance(question, VectorQuery):",
     "tests/pricing/test_replace_one.py"),
    ("pricing", "more gradients than were charged for", "answers=question.steps if", "answers=question.steps + 1 if",
     "tests/pricing/test_non_interference.py"),
    ("pricing", "a donor serves half as many", "hit = min(hit, 2 * self.max_donations * h)", "hit = min(hit, self.max_donations * h)",
     "tests/pricing/test_stability.py"),
    ("pricing", "error of a step quotes a cell", "with replacing(Exception, by=failed), no_warnings():\n                margin =", "with no_warnings():\n                margin =",
     "tests/pricing/test_replace_one.py"),
    # synth: budgets of fits, and what models hold
    ("synth", "cap of a part not kept", "if not self.room_for(event):", "if False:",
     "tests/synth/test_caps.py"),
    ("synth", "score charged at half its sensitivity", "SCORE_SENSITIVITY = 1.0 + 2.0**-20", "SCORE_SENSITIVITY = 0.5",
     "tests/synth/test_graphical.py"),
    ("synth", "leaked count of rows", "counted = _settle_rows(fresh, total)", "counted = _settle_rows(fresh, Total(len(getattr(source, 'table', ())), 0.0))",
     "tests/synth/test_conformance.py::test_what_a_fit_shows_was_released_and_charged_for"),
    ("synth", "model that stores a private count", "fresh.n_rows_std_ = total.std", "fresh.n_rows_std_ = total.std + 1e-9 * len(getattr(source, 'table', ()))",
     "tests/synth/test_conformance.py::test_what_a_fit_shows_was_released_and_charged_for"),
    ("synth", "refusal by the exact count", "facts = schema if opened and schema else source.schema", "facts = schema if opened and schema else source.schema\n    if not len(getattr(source, 'table', '1')):\n        raise ParameterError('the table is empty')",
     "tests/synth/test_conformance.py::test_what_a_fit_shows_was_released_and_charged_for"),
    ("synth", "all pairs get what trees left", "if self._caps_of_fit() is None or door", "if self._split or door",
     "tests/synth/test_cuts.py"),
    ("synth", "counts of filled rows behind gates", "Gate() if filled else self._observed_gate(c, schema) for c in cliques", "self._observed_gate(c, schema) for c in cliques if filled or cliques",
     "tests/synth/test_cuts.py"),
    ("synth", "imputation spends more than its share", "noise = _part(cost, 1 / len(nullable))", "noise = _part(cost, 1.0)",
     "tests/synth/test_budgets.py"),
    ("synth", "rows that break a rule are kept", "broken |= bound.broken(known, n)[0]", "pass",
     "tests/synth/test_sampling.py"),
    ("synth", "an edited guarantee is believed", "if not agrees:", "if False:",
     "tests/test_record.py"),
    ("synth", "rows drawn from the numbers of the noise", "np.random.SeedSequence(int(seed), spawn_key=_SAMPLING)", "np.random.SeedSequence(int(seed))",
     "tests/synth/test_conformance.py::test_synthetic_rows_do_not_reuse_the_noise"),
    ("baselines", "gates of trained heads that are not kept", "observed=(name,),\n", "observed=(),\n",
     "tests/baselines/test_kamino.py"),
    ("synth", "gates of all releases taken for one", "gate = smallest if chosen else frozenset.intersection(*known)", "gate = frozenset.union(*known)",
     "tests/synth/test_ground_truth.py"),
    ("synth", "Laplace noise of half its price", "return cls(\"laplace\", scale * _ROOM)", "return cls(\"laplace\", scale * _ROOM / 2)",
     "tests/synth/test_budgets.py"),
    # table: cells to codes
    ("table", "flipped mask", "masks = [\n            self.codes(name) >= ", "masks = [\n            self.codes(name) < ",
     "tests/table/test_table.py"),
    ("table", "values beyond their bounds", "np.clip(values, attribute.lower, attribute.upper, out=values)", "pass",
     "tests/table/test_encode.py"),
    ("table", "a number under a hole", "missing |= outside\n            values[missing] = attribute.lower", "missing |= outside",
     "tests/table/test_encode.py"),
    ("table", "refusal that tells how many cells", "f\"column {attribute.name!r} has values outside its declared domain", "f\"column {attribute.name!r} has {outside.sum()} values outside its declared domain",
     "tests/table/test_encode.py"),
    ("table", "dates that no object can be are known of a whole column only", "far = (years < _FIRST_YEAR) | (years > _LAST_YEAR)", "far = np.abs(years - 1970) > 8030",
     "tests/table/test_formats.py"),
    ("table", "letters among numbers are no codes where no row has a number", "if not pd.api.types.is_numeric_dtype(column):", "if column.dtype == object:",
     "tests/table/test_formats.py"),
    ("table", "a sum of a lost cell is still known", "self.blank(self._derived_from(name), where)", "pass",
     "tests/table/test_follow.py"),
    ("table", "an open quote that a later row closes", "if last is None or lost or self._quotes.misplaced:", "if last is None or lost:",
     "tests/table/test_table.py"),
    ("table", "the separator is what stands most often, in rows too", "max(found, key=lambda one: len(one.names)", "max(found, key=lambda one: text.count(one.separator)",
     "tests/table/test_table.py"),
    ("table", "a record's key decides for all", "return {key: [record.get(key) for record in records] for key in keys}", "return {key: [record.get(key) for record in records] for key in records[-1]}",
     "tests/table/test_holders.py"),
    ("table", "holes that keep their value", "values[hole] = attribute.lower", "pass",
     "tests/evaluate/test_simulators.py tests/evaluate/test_distances.py"),
    ("table", "a column of keys is read", "zip(found, data.values(), strict=True) if n not in unread}", "zip(found, data.values(), strict=True)}",
     "tests/table/test_layout.py"),
    ("table", "numbers are read in a spelling that is not declared", "return text if read_number(text.strip()) is None else UNREADABLE", "return text",
     "tests/table/test_layout.py"),
    ("table", "keys begin anew in each block", "            rows[place] += table.num_rows\n", "",
     "tests/table/test_layout.py"),
    ("schema", "a whole number that floats confuse with another is its level", "return not MAX_WHOLE <= abs(number) < math.inf", "return True",
     "tests/table/test_bad_input.py"),
    # schema, inference, evaluate
    ("schema", "a missing cell satisfies what it may hold", "Known(self.least, self.greatest, np.zeros_like(self.hole), ~self.present)", "Known(self.least, self.greatest, np.zeros_like(self.hole), self.absent)",
     "tests/schema/test_predicates.py"),
    ("schema", "what is not sure is sure of its opposite", "return ~maybe, ~surely", "return ~surely, ~maybe",
     "tests/schema/test_predicates.py"),
    ("schema", "a level that rules leave no row is kept", "alive[name] = np.isin(np.arange(len(alive[name])), kept[name][possible.any(axis=others)])", "alive[name] = alive[name] | possible.any()",
     "tests/schema/test_rules.py"),
    ("schema", "a chain of comparisons is their first alone", "return Join((first, compare(attribute, self.sign(), self.constant())), all_of=True)", "return Join((first, compare(attribute, self.sign(), self.constant())), all_of=False)",
     "tests/schema/test_predicates.py"),
    ("table", "what a column without levels holds is refused", "missing\" and not self.nullable and getattr(self, \"levels\", None) != ():", "missing\" and not self.nullable:",
     "tests/table/test_draft.py"),
    ("schema", "30 February is 1 March",
     '        possible &= days.astype("datetime64[M]") == months  # there is no 30 February\n', "",
     "tests/table/test_dates.py"),
    ("schema", "text with a time zone is read where none is declared",
     "possible &= (offset == _NO_ZONE) != zoned", "possible &= True",
     "tests/table/test_dates.py"),
    ("schema", "dates around 1970 get finer cells", "if isinstance(a, (Date, Difference)) or abs(near)",
     "if abs(near)", "tests/schema/test_dates.py"),
    ("table", "moments with a time zone are read where none is declared",
     "far | (zoned != attribute.zoned)", "far", "tests/table/test_dates.py"),
    ("table", "a missing date is the mean of the others", "np.where(missing, np.nan, column.values)",
     "np.where(missing, column.values.mean(), column.values)", "tests/schema/test_differences.py"),
    ("table", "differences are not computed again when a date is hidden",
     "        columns |= computed(self.schema, columns)\n", "", "tests/schema/test_differences.py"),
    ("sources", "streams are not checked for differences out of bounds",
     "if not wanted and schema.stored is schema:", "if not wanted:",
     "tests/schema/test_differences.py"),
    ("synth", "synthetic rows keep a difference without its date",
     "rows.lose(rule.by[1], rows.known[rule.by[0]].hole)", "pass",
     "tests/synth/test_differences.py"),
    ("ground_truth", "differences are amplified as if proven",
     "if computed := sorted({*schema.names} - {*schema.stored.names}):", "if computed := []:",
     "tests/synth/test_differences.py"),
    ("schema", "t2.a < t1.b read as t1.b < t2.a", "one, sign, two = two, MIRRORED[sign], one", "one, sign, two = two, sign, one",
     "tests/schema/test_denials.py"),
    ("inference", "noise is not divided by the rows", "misfit, scale = _misfit(codes[chosen], tables)", "misfit, scale = _misfit(codes, tables)",
     "tests/inference/test_raking.py"),
    ("inference", "a row is in two nodes of a level of a tree", "return [fine.reshape(1 << level, -1).sum(axis=1) for level in levels]", "return [(fine + np.roll(fine, 1)).reshape(1 << level, -1).sum(axis=1) for level in levels]",
     "tests/inference/test_dyadic.py"),
    ("inference", "mass far out is believed as easily as near", "_FAR = 3.5", "_FAR = 1.0",
     "tests/inference/test_dyadic.py"),
    ("synth", "more bins than caps are planned for", "edges = _quantiles(pieces, shares, min(bins, MOST_CODES - len(spikes)))", "edges = _quantiles(pieces, shares, bins)",
     "tests/synth/test_cuts.py"),
    ("synth", "a look at the range that costs nothing", "cost = replace(cost, amount=cost.amount * (1 - share))", "pass",
     "tests/synth/test_cuts.py"),
    ("inference", "impossible rows keep their weight", "left = start * (table.ravel() > 0)[_cells(columns, clique, table)]", "left = start",
     "tests/inference/test_raking.py"),
    ("evaluate", "holes where values should be", "np.asarray(rng.random(len(chance)) < chance)", "np.asarray(rng.random(len(chance)) > chance)",
     "tests/evaluate/test_simulators.py"),
    ("evaluate", "total variation of half its size", "min(1.0, 0.5 * np.abs(one / n_one - two / n_two).sum())", "min(1.0, 0.25 * np.abs(one / n_one - two / n_two).sum())",
     "tests/evaluate/test_distances.py"),
    ("evaluate", "each pair of rows counted twice", "pairs[denial.text] = int(partners.sum()) // 2", "pairs[denial.text] = int(partners.sum())",
     "tests/evaluate/test_violations.py"),
    ("testing", "a kit that compares nothing", "seen = [name for name in {**first, **second} if first.get(name) != second.get(name)]", "seen: list[str] = []",
     "tests/testing/test_kit.py"),
    ("testing", "rows that are read beside answers", "self.read_beside += not self.computing", "pass",
     "tests/testing/test_kit.py"),
    ("testing", "answers that nobody paid for", "            _expect_paid(answered, charged)\n", "",
     "tests/testing/test_kit.py"),
    ("testing", "a gate that is not looked at", "_check_gate(before, after, table, row[0])", "pass",
     "tests/testing/test_kit.py"),
    ("testing", "an audit that refutes nothing", "flagged=low > claim.most_hits(high)", "flagged=False",
     "tests/testing/test_audits.py"),
    # cli, files, records, errors
    ("errors", "an error that keeps the one it replaces", "fresh.__cause__ = fresh.__context__ = None", "fresh.__cause__ = None",
     "tests/test_errors.py"),
    ("record", "a checksum that nobody compares", "if rest.pop(_NAME, None) != _digest(rest):", "if rest.pop(_NAME, None) is None:",
     "tests/test_record.py"),
    ("files", "a name before its content is on the disk", "os.fsync(self.handle)\n        nameless", "nameless",
     "tests/test_files.py"),
    # office: the ledger
    ("office", "a request is started again", "if \"started\" in states:\n        rest", "if False:\n        rest",
     "tests/office/test_ledger.py"),
    ("office", "a started request of a command touches what was kept", "if not release.is_whole:", "if False:",
     "tests/cli/test_budget.py"),
    ("office", "rows are read before the charge", "charged = charge.start(events, facts, rests_on, release=", "data.columns()\n            charged = charge.start(events, facts, rests_on, release=",
     "tests/cli/test_budget.py"),
    ("office", "charges of a budget are not added", "spent, failed = total((self.spent, cost))", "spent, failed = total((self.spent,))",
     "tests/office/test_ledger.py"),
    ("office", "a part is not charged to the whole", "charged = [row.charged(cost, failure, row.last, row.head) for row in rows]", "charged = [row.charged(cost, failure, row.last, row.head) for row in rows[-1:]]",
     "tests/office/test_ledger.py"),
    ("office", "how long a release took stands in the ledger", "if timed:\n            line", "if True:\n            line",
     "tests/office/test_ledger.py"),
    ("office", "when a release ended stands beside its line", "now = max(now, known) if timed else known", "now = max(now, known)",
     "tests/office/test_ledger.py"),
    ("office", "two create a budget of one table at once", "if create:\n                    connection.execute(self._dialect.there)", "if False:\n                    connection.execute(self._dialect.there)",
     "tests/office/test_postgres.py"),
    ("cli", "a request stands for any rows of a database", "*(\"memory\", \"parts\",", "*(\"memory\", \"table\", \"select\", \"parts\",",
     "tests/cli/test_budget.py"),
    ("office", "people approve their own requests", "states[\"requested\"][\"who\"] == self._who", "states[\"requested\"][\"who\"] == \"\"",
     "tests/office/test_ledger.py"),
    ("office", "an approval of other events", "\"file\", \"conditions\", \"events\")", "\"file\", \"conditions\")",
     "tests/office/test_ledger.py"),
    ("office", "an approval of another purpose", "\"purpose\", \"ticket\", \"file\"", "\"ticket\", \"file\"",
     "tests/office/test_ledger.py"),
    ("office", "a refund when a release is abandoned", "self._append(run, row, request, state, facts)", "self._append(run, replace(row, spent=_NOTHING), request, state, facts)",
     "tests/office/test_ledger.py"),
    ("office", "a release that was never charged is not seen", "not in (\"started\", \"released\", \"abandoned\")", "in (\"refused\",)",
     "tests/cli/test_budget.py"),
    ("office", "a changed answer is not seen", "self.outputs.get(release, output) != output", "False",
     "tests/cli/test_budget.py"),
    ("office", "a fit opens its rows before the charge", "getattr(model.budget, \"charged_first\", False)", "False",
     "tests/cli/test_budget.py"),
    ("office", "a schema's ledger is not asked for", "if ledger and (budget is None or not budget.pays_for(ledger)):", "if False:",
     "tests/cli/test_budget.py"),
    ("office", "any budget pays for a schema that names another", "return name in path_of(self._facts.name) and (", "return (",
     "tests/cli/test_budget.py"),
    ("office", "a hash that tells the seed", "*(\"seed\", \"data\",", "*(\"data\",",
     "tests/cli/test_budget.py"),
    ("office", "a role that may rewrite", "GRANT UPDATE ({sums}) ON budgets", "GRANT UPDATE ON budgets",
     "tests/office/test_postgres.py"),
    ("office", "a retried query draws anew", "if charge.answered(facts, as_json=as_json):", "if False:",
     "tests/cli/test_budget.py"),
    ("office", "sums that fall", " OR NEW.spent_floor < OLD.spent_floor", "",
     "tests/office/test_ledger.py"),
    ("office", "a changed line is not seen", "(head, last + 1) or digest(body) != hashed:", "(head, last + 1):",
     "tests/office/test_ledger.py"),
    ("office", "a restored backup is not seen", "(found is None or lines not in (None, found))", "False",
     "tests/office/test_ledger.py"),
    ("office", "failures are not capped", "and self.failed <= failure", "and 0 <= failure",
     "tests/office/test_ledger.py"),
    ("office", "what was released is not recorded", "answers = run_queries(rows, requests, budget=budget, undeclared=undeclared)", "answers = run_queries(rows, requests, budget=budget, undeclared=undeclared)\n        charged = None",
     "tests/cli/test_budget.py"),
    # office: the dossier
    ("office", "papers of facts that were read from rows", "    if read:\n        named", "    if False:\n        named",
     "tests/office/test_dossier.py"),
    ("office", "a spreadsheet runs a name", "return f\"'{text}\" if text.startswith(_FORMULA) else text", "return text",
     "tests/office/test_dossier.py"),
    ("office", "the noise of a measurement is no variance", "products.std**2", "products.std",
     "tests/office/test_dossier.py"),
    ("office", "intervals of noise are too narrow", "half = 196 * std", "half = 100 * std",
     "tests/office/test_dossier.py"),
    ("office", "a folder of others is replaced", "if not found <= {*FILES} or not", "if not",
     "tests/office/test_dossier.py"),
    ("office", "what is modelled is said to be measured", "how: Any = \"measured\" if stds else \"modelled\"", "how: Any = \"measured\"",
     "tests/office/test_dossier.py"),
    ("office", "a seed is not said", "\"seeded\": ExplicitSeed in kinds", "\"seeded\": False",
     "tests/office/test_dossier.py"),
    ("cli", "an unwritten claim file", "self._claim(path, stack)\n", "pass\n",
     "tests/cli/test_release_files.py"),
    ("cli", "error that quotes a cell", "f\"unexpected {type(error).__name__}; details", "f\"unexpected {error}; details",
     "tests/cli/test_cli.py"),
    ("cli", "the model is not kept", "release.keep(synthesizer)\n", "pass\n",
     "tests/cli/test_lost_release.py"),
    ("cli", "what is charged is not said", "RUN.note_spending(synthesizer.epsilon, spent)", "pass",
     "tests/cli/test_cli.py"),
    ("cli", "a release replaced unasked", "if self._overwrite or path in self._claims or not os.path.lexists(path):", "if True:",
     "tests/cli/test_release_files.py"),
)]
# fmt: on


def places(old: str, root: Path) -> list[Path]:
    """Return the files in which a snippet stands, once for each time."""
    files = sorted((root / "src" / "missdp").rglob("*.py"))
    return [path for path in files for _ in range(path.read_text(encoding="utf-8").count(old))]


def copied(folder: Path) -> Path:
    """Copy the checkout, with compiled files that a break makes invalid alone."""
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".*", "__pycache__", "results"))
    subprocess.run([sys.executable, "-m", "compileall", "-q", folder / "src"], check=True)
    return folder


def run_tests(folder: Path, tests: str) -> tuple[int, str]:
    """Run tests in a copy; return pytest's exit code and the test that failed first."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no"]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    try:
        done = subprocess.run(
            [*command, "--hypothesis-profile=ci", *tests.split()],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        return FOUND, "hangs"
    failed = re.search(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - |$)", done.stdout, re.MULTILINE)
    last = done.stdout.strip().rpartition("\n")[2]
    if done.returncode == FOUND and not failed:  # a file of tests that cannot be read
        return NO_TESTS[0], last
    return done.returncode, failed[1] if failed else last


def outcome(mutant: Mutant, folder: Path) -> str:
    """Break a copy, run the tests that must find it, mend it; return what found it, or why not."""
    found = places(mutant.old, folder)
    if len(found) != 1:
        return f"LOST: the snippet stands in {len(found)} places"
    text, known = found[0].read_text(encoding="utf-8"), found[0].stat()
    found[0].write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        code, what = run_tests(folder, mutant.tests)
    finally:
        found[0].write_text(text, encoding="utf-8")
        os.utime(found[0], ns=(known.st_atime_ns, known.st_mtime_ns))  # as it was compiled
    if code in NO_TESTS:
        return f"LOST: no such test, or it does not start: {what}"
    return what if code == FOUND else "MISSED"


def unbroken(mutants: list[Mutant], folder: Path) -> str:
    """Say whether all named tests pass without any break."""
    tests = " ".join(dict.fromkeys(test for m in mutants for test in m.tests.split()))
    code, what = run_tests(folder, tests)
    return "pass" if code == 0 else f"LOST: {what}"


def main() -> int:
    """Print one line for each break; return how many are lost or missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="ROOM", help="breaks of this room")
    parser.add_argument("--list", action="store_true", help="show the breaks; run nothing")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once")
    parser.add_argument("--control", action="store_true", help="also run the tests without a break")
    asked = parser.parse_args()
    mutants = [m for m in MUTANTS if asked.only in (None, m.room)]
    if asked.list:
        for m in mutants:
            print(f"{m.room:13s} {len(places(m.old, ROOT))} {m.what}: {m.tests}")
        return 0
    started, wrong = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(asked.jobs) as pool:
        copies: Queue[Path] = Queue()
        for i in range(asked.jobs):
            copies.put(copied(Path(folder) / str(i)))

        def measured(mutant: Mutant) -> tuple[str, float]:
            copy, begun = copies.get(), time.monotonic()
            try:
                return outcome(mutant, copy), time.monotonic() - begun
            finally:
                copies.put(copy)

        print("| break | room | found by | s |\n|---|---|---|---|")
        for mutant, (by, seconds) in zip(mutants, pool.map(measured, mutants), strict=True):
            wrong += by.startswith(("LOST", "MISSED"))
            print(f"| {mutant.what} | {mutant.room} | {by} | {seconds:.0f} |", flush=True)
        if asked.control:
            print(f"without a break: {unbroken(mutants, copies.get())}")
    print(f"\n{len(mutants) - wrong} of {len(mutants)} found, {time.monotonic() - started:.0f} s")
    return wrong


if __name__ == "__main__":
    sys.exit(min(1, main()))
