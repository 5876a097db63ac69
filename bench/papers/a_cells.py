"""All cells that the figures of Mohapatra et al. (2024) need, in one resumable run.

    python bench/papers/a_cells.py --output /tmp/papers-a               # 45 CPU minutes
    python bench/papers/a_cells.py --output /tmp/papers-a --minutes 10  # again, to continue

Every cell is fitted once first. Then the fastest cells are fitted again, with the next seed. Each
figure has a separate script, which measures the cells that it lacks.
"""

import collections
import sys

import a_decay
import a_figure2
import a_figure3
import a_figure4
import a_figure5
from a_shared import ADAPTIVE, Measured, markdown, options, with_seeds

PARTS = (a_figure4, a_figure5, a_figure2, a_figure3, a_decay)


def later(part, measured):
    """Return the cells of further seeds, the cheapest of the first seed before the others."""
    cost = {
        cell: figures["seconds"] for cell, figures in measured.results.items() if cell.seed == 0
    }
    cells = [cell for cell in part if cell.seed > 0]
    first = with_seeds(cells, 1)
    order = sorted(zip(cells, first, strict=True), key=lambda pair: (pair[0].seed, cost[pair[1]]))
    return [cell for cell, _ in order]


def page(measured):
    """Return the number of fits of the cells of each family."""
    fits = collections.Counter()
    for cell in measured.results:
        fits[cell.family, with_seeds([cell], 1)[0]] += 1
    lines = []
    for family in (*ADAPTIVE, "DPAutoGAN"):
        counts = collections.Counter(
            (cell.what, n) for (name, cell), n in fits.items() if name == family
        )
        lines.append(
            [
                family,
                *(counts["distance", n] or "" for n in (1, 2)),
                counts["f1", 1] or "",
            ]
        )
    return markdown(["cells", "one fit", "two fits", "F1, one fit"], lines)


def main(argv=None):
    arguments = options(__doc__, argv, minutes={"type": float, "default": float("inf")})
    cells = list(dict.fromkeys(c for part in PARTS for c in part.cells(arguments.short)))
    once = list(dict.fromkeys(c for part in PARTS for c in part.cells_once(arguments.short)))
    measured = Measured(arguments.output, short=arguments.short)
    limits = {"minutes": arguments.minutes}
    if measured.need([*with_seeds(cells, 1), *once], **limits):
        again = later(with_seeds(cells, arguments.seeds), measured)
        if measured.need(again, **limits):
            print(f"{len(measured.results)} cells in {measured.path}", file=sys.stderr)


if __name__ == "__main__":
    main()
