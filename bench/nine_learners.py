"""The nine classifiers of Mohapatra et al. (2024), with their libraries' defaults.

`missdp.evaluate.classifier_f1(learners=NINE)` measures their F1. They need
scikit-learn and XGBoost.
"""

from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier


def _seeded(kind, **fixed):
    """Return a function that makes a classifier from a seed."""
    return lambda seed: kind(random_state=seed, **fixed)


NINE = {
    "LogisticRegression": _seeded(LogisticRegression),
    "AdaBoost": _seeded(AdaBoostClassifier),
    "GradientBoosting": _seeded(GradientBoostingClassifier),
    "XGBoost": _seeded(XGBClassifier, n_jobs=1),
    "RandomForest": _seeded(RandomForestClassifier, n_jobs=1),
    "BernoulliNB": lambda _: BernoulliNB(),
    "DecisionTree": _seeded(DecisionTreeClassifier),
    "Bagging": _seeded(BaggingClassifier, n_jobs=1),
    "MLP": _seeded(MLPClassifier),
}
