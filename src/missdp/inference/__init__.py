"""Models of rows on discrete domains: learned from noisy marginals, and sampled.

Plain numbers in, plain numbers out: nothing here is private, and nothing is charged.

* `missingness`: a model of which cells are missing; `missing_rates`: its released tables.
* `model`: levels that are modelled together, and how rows are sampled.
* `marginals`: noisy marginals of any order, what they tell of pairs, and a quick model of rows.
* `counts`: noisy counts made plausible.
* `product_sums`: what clipping takes from sums over rows, and what they tell of numbers.
* `conditional_models`: rows drawn by one regression after the other.
* `fit_conditional_models`: the fit of these regressions to tables of pairs.
* `completion`: tables of complete rows, from those with holes; `smoothing`: what noise hides.
* `models`: what is released of all this, and others like it.
* `conditionals`: laws by which missing values are filled.
* `raking`: rows of a model re-weighted so that tables hold; noisy tables leaned on a model.
* `dyadic`: a column's distribution from a tree of counts.
"""
