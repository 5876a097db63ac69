"""Estimators and pipelines that the promises of standardised rows are tested on."""

import numpy as np

from missdp import pricing as mp

ESTIMATORS = {
    "mean": mp.PrivateMean(noise_multiplier=4.0),
    "mean, Laplace": mp.PrivateMean(noise_multiplier=4.0, mechanism="laplace"),
    "covariance": mp.PrivateCovariance(noise_multiplier=4.0),
    "histogram": mp.PrivateHistogram(edges=[-1, 0, 0.5, 1], noise_multiplier=4.0),
    "histogram, Laplace": mp.PrivateHistogram(
        edges=[-1, 0, 1], noise_multiplier=4.0, mechanism="laplace", column=1
    ),
    "logistic, gd": mp.PrivateLogisticRegression(noise_multiplier=30.0, n_iter=4),
    "logistic, sgd": mp.PrivateLogisticRegression(
        noise_multiplier=30.0, n_iter=4, method="sgd", batch_size=3
    ),
    "logistic, no intercept": mp.PrivateLogisticRegression(
        noise_multiplier=30.0, n_iter=4, fit_intercept=False, coefficient_norm=1.0
    ),
    "linear, gd": mp.PrivateLinearRegression(noise_multiplier=30.0, n_iter=4),
    "linear, sgd": mp.PrivateLinearRegression(
        noise_multiplier=30.0, n_iter=4, method="sgd", batch_size=3
    ),
}
CHAINS = {
    "none": [],
    "mean": [mp.MeanImputer(max_incomplete=5)],
    "median": [mp.MedianImputer(max_incomplete=5, central_gap=0.1)],
    "regression": [mp.RegressionImputer(target=0, max_incomplete=5, regularization=0.1)],
    "knn": [mp.NeighbourImputer(max_incomplete=4, n_neighbors=2)],
    "round": [mp.MeanImputer(max_incomplete=5), mp.Quantizer(eta=0.1, max_cluster=3)],
    "dedup": [mp.MeanImputer(max_incomplete=5), mp.Deduplicator(eta=0.1, max_cluster=3)],
    "min-max": [
        mp.MeanImputer(max_incomplete=5),
        mp.MinMaxScaler(min_range=0.1, extreme_gap=0.1),
    ],
    "chain": [
        mp.MeanImputer(max_incomplete=5),
        mp.StandardScaler(min_std=0.2),
        mp.RowClipper(radius=1.0),
        mp.PCARankReducer(n_components=1, min_gap=0.05),
    ],
}


# Every step and every estimator, with its required parameters.
KINDS = {
    mp.RowClipper: {},
    mp.ConstantImputer: {},
    mp.MeanImputer: {"max_incomplete": 2, "cells_per_row": 1},
    mp.MedianImputer: {"max_incomplete": 2, "central_gap": 0.1},
    mp.TrimmedMeanImputer: {"max_incomplete": 2, "trim": 1, "trimmed_range": 0.1},
    mp.RegressionImputer: {"target": 1, "max_incomplete": 2, "regularization": 0.1},
    mp.NeighbourImputer: {"max_incomplete": 1, "n_neighbors": 2, "max_donations": 2},
    mp.StandardScaler: {"min_std": 0.3},
    mp.MinMaxScaler: {"min_range": 0.1, "extreme_gap": 0.1},
    mp.PCARankReducer: {"n_components": 1, "min_gap": 0.1},
    mp.PCADimensionReducer: {"n_components": 1, "min_gap": 0.1, "min_overlap": 0.5},
    mp.Quantizer: {"eta": 0.1, "max_cluster": 2, "max_neighbours": 2},
    mp.Deduplicator: {"eta": 0.1, "max_cluster": 2},
    mp.PrivateMean: {"noise_multiplier": 4.0},
    mp.PrivateCovariance: {"noise_multiplier": 4.0},
    mp.PrivateHistogram: {"edges": [-1, 0, 1], "noise_multiplier": 4.0},
    mp.PrivateLogisticRegression: {"noise_multiplier": 30.0},
    mp.PrivateLinearRegression: {"noise_multiplier": 30.0, "method": "sgd"},
    mp.PricedPipeline: {},
}


def released(estimator):
    names = ("mean_", "covariance_", "counts_", "coef_", "intercept_")
    result = {n: vars(estimator)[n] for n in names if n in vars(estimator)}
    return {name: np.asarray(value).tobytes() for name, value in result.items()}


def target(rows, seed):
    return np.random.default_rng(seed).choice(np.array([0, 1, 0.4, None, "odd"], object), rows)
