"""Estimators and pipelines that the promises of the replace-one door are tested on."""

from __future__ import annotations

import numpy as np

from missdp.pricing import (
    Deduplicator,
    MeanImputer,
    MedianImputer,
    MinMaxScaler,
    NeighbourImputer,
    PCARankReducer,
    PrivateCovariance,
    PrivateHistogram,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMean,
    Quantizer,
    RegressionImputer,
    RowClipper,
    StandardScaler,
)

ESTIMATORS = {
    "mean": PrivateMean(noise_multiplier=4.0),
    "mean, Laplace": PrivateMean(noise_multiplier=4.0, mechanism="laplace"),
    "covariance": PrivateCovariance(noise_multiplier=4.0),
    "histogram": PrivateHistogram(edges=[-1, 0, 0.5, 1], noise_multiplier=4.0),
    "histogram, Laplace": PrivateHistogram(
        edges=[-1, 0, 1], noise_multiplier=4.0, mechanism="laplace", column=1
    ),
    "logistic, gd": PrivateLogisticRegression(noise_multiplier=30.0, n_iter=4),
    "logistic, sgd": PrivateLogisticRegression(
        noise_multiplier=30.0, n_iter=4, method="sgd", batch_size=3
    ),
    "logistic, iteration": PrivateLogisticRegression(noise_multiplier=30.0, method="iteration"),
    "linear, gd": PrivateLinearRegression(noise_multiplier=30.0, n_iter=4),
    "linear, sgd": PrivateLinearRegression(
        noise_multiplier=30.0, n_iter=4, method="sgd", batch_size=3
    ),
    "linear, iteration": PrivateLinearRegression(
        noise_multiplier=30.0, method="iteration", learning_rate=0.1
    ),
}
CHAINS = {
    "none": [],
    "mean": [MeanImputer(max_incomplete=5)],
    "median": [MedianImputer(max_incomplete=5, central_gap=0.1)],
    "regression": [RegressionImputer(target=0, max_incomplete=5, regularization=0.1)],
    "knn": [NeighbourImputer(max_incomplete=4, n_neighbors=2)],
    "round": [MeanImputer(max_incomplete=5), Quantizer(eta=0.1, max_cluster=3)],
    "dedup": [MeanImputer(max_incomplete=5), Deduplicator(eta=0.1, max_cluster=3)],
    "min-max": [MeanImputer(max_incomplete=5), MinMaxScaler(least_range=0.1, extreme_gap=0.1)],
    "chain": [
        MeanImputer(max_incomplete=5),
        StandardScaler(least_std=0.2),
        RowClipper(radius=1.0),
        PCARankReducer(n_components=1, least_gap=0.05),
    ],
}


def released(estimator) -> dict[str, bytes]:
    """The released attributes, bit by bit."""
    names = ("mean_", "covariance_", "counts_", "coef_")
    return {n: vars(estimator)[n].tobytes() for n in names if n in vars(estimator)}


def target(rows: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).choice(np.array([0, 1, 0.4, None, "odd"], object), rows)
