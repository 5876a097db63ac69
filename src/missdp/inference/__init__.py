"""Graphical models on discrete domains: exact inference, and learning from noisy marginals.

Plain numbers in, plain numbers out: nothing here is private, and nothing is charged.

* `junction`: the order in which a model is summed out, and how many cells that takes.
* `beliefs`: marginals of a log-linear model, and its fit to noisy marginals.
* `masks`: a model of which cells are missing.
* `model`: levels that are modelled together, and how rows are sampled.
* `products`: what clipping takes from sums over rows, and what they tell of numbers.
* `heads`: rows drawn by one regression after the other; `fit_heads`: its fit to tables of pairs.
* `completion`: tables of complete rows, from those with holes; `smooth`: what noise hides.
* `estimate`: both models fitted in turns, while more and more is measured.
* `models`: what is released of all this, and others like it; `conditioned`: some of its rows.
* `conditionals`: laws by which missing values are filled.
* `raking`: rows of a model re-weighted so that tables hold; noisy tables leaned on a model.
* `dyadic`: a column's distribution from a tree of counts.
"""
