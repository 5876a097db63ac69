"""Adversarial families: a generator, and critics that tell its rows from private ones.

* `neural_base`: what they have in common; the only place that imports torch, when a model is
  fitted.
* `class_table`: a generator that is a table of classes; it draws rows without torch.
* `pair_moments`: means of a row's pair features, what critics of pairs know of the private rows;
  `pair_critic` learns them step by step.
* `fit_classes`: the table of classes that such a critic cannot tell from them.
* `critics`: gradients of small networks for every single row; `networks`: generators that are such
  networks, drawn without torch; `starts`: where they start; `contest`: critics trained privately,
  and generators against them.
* `mlp_misgan`, `autoencoder`, `conditional`: what families that use them train, and against what
  (`rows_side`).
* `dp_misgan`, `dp_autogan`, `dp_ctgan`: the families.
"""
