"""Estimators from released values: models of rows, of missing cells, and of numbers.

Everything here is a function of released values and public facts.

* `marginals`: noisy marginals of any order, tables of pairs from them, and the quick model of AIM.
* `missingness`: a model of missing cells. `missing_rates` has its released tables.
* `conditional_models`: the model of complete rows. `fit_conditional_models` fits it to noisy
  tables. `conditionals` has the distribution of each attribute given others, for filling.
* `completion`: tables of complete rows, from tables with missing values. `smoothing` and
  `shrinkage` have priors for dependence that noise hides.
* `product_sums`: clipped sums of products, and the clipping bias.
* `raking`: weights of rows with which tables hold.
* `dyadic`: the distribution of an ordered column from a tree of noisy counts. `counts` has small
  tools for noisy counts.
* `model`: merged levels and draws of levels. `models` has the released model of all pairs.
"""
