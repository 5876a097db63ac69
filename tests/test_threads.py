"""Small linear algebra runs in one thread, and the process is left as it was found."""

import os
import signal
import threading
import warnings
from importlib import import_module

import numpy as np
import pytest
from sklearn import metrics
from threadpoolctl import threadpool_info, threadpool_limits

from missdp import MST, DPImputer
from missdp.datasets import yrbss
from missdp.estimate import intervals, released
from missdp.evaluate import classifier_f1
from missdp.inference.models import PairModel
from missdp.pricing import MeanImputer, PricedPipeline, PrivateMean, model_imputer
from missdp.sources import filling
from missdp.synth import adaptive, uncertain
from missdp.threads import one_blas_thread

TABLE = yrbss().table().take(np.arange(300))


def threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _three():
    """Set the number of threads that a user's process may have, on any machine."""
    with threadpool_limits(3, user_api="blas"):
        yield
        assert threads() == {3}


def test_it_is_put_back_by_the_last_to_go_whichever_thread_that_is():
    inside, leave = threading.Event(), threading.Event()

    def stay():
        with one_blas_thread():
            inside.set()
            leave.wait(200)

    other = threading.Thread(target=stay)
    with one_blas_thread():
        other.start()
        assert inside.wait(200)
        with pytest.raises(ZeroDivisionError), one_blas_thread():
            raise ZeroDivisionError
        assert threads() == {1}
    assert threads() == {1}  # the other one is still at it
    leave.set()
    other.join()
    assert threads() == {3}


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows")
def test_a_forked_process_does_not_wait_for_a_thread_that_it_lacks():
    done = threading.Event()

    def come_and_go():
        while not done.is_set():
            with one_blas_thread():
                pass

    other = threading.Thread(target=come_and_go)
    other.start()
    try:
        for _ in range(10):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # forks of threads
                child = os.fork()
            if not child:
                signal.alarm(200)
                with one_blas_thread():
                    os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        done.set()
        other.join()


@pytest.fixture(scope="module")
def model():
    return MST(epsilon=2.0, delta=1e-6, random_state=0).fit(TABLE)


ROWS = np.random.default_rng(0).uniform(-1, 1, (40, 2))
HEAVY = {
    "fit": (adaptive, "_fit", lambda _: MST(epsilon=2.0, delta=1e-6, random_state=0).fit(TABLE)),
    "sample": (PairModel, "sample", lambda model: model.sample(50)),
    "multiple": (uncertain, "fit_conditional_models", lambda model: model.sample(20, multiple=2)),
    "laws of imputing": (model_imputer, "fit_conditionals", lambda m: DPImputer(model=m).fit()),
    "estimate": (intervals, "estimates_of", lambda model: model.estimate("mean(weight)")),
    "released": (released, "ReleasedTables", lambda model: model.regress("weight ~ height")),
    "sensitivity": (
        import_module("missdp.estimate.sensitivity_analysis"),
        "estimates_of",
        lambda model: model.sensitivity("mean(age)", attribute="age", shifts=(0.5,)),
    ),
    "impute": (filling, "_fill_modelled", lambda m: DPImputer(model=m).fit_transform(TABLE)),
    "evaluate": (
        metrics,
        "f1_score",
        lambda m: classifier_f1(
            TABLE,
            m.sample_table(200),
            random_state=0,
            learners=["RandomForest"],
            attributes=["gender"],
        ),
    ),
    "pipeline": (
        MeanImputer,
        "fit",
        lambda _: PricedPipeline(
            [("mean", MeanImputer(max_incomplete=5))],
            PrivateMean(noise_multiplier=4.0),
            rows=40,
            columns=2,
        ).fit(ROWS),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("work", HEAVY)
def test_heavy_work_runs_in_one_thread(work, model, monkeypatch):
    owner, name, call = HEAVY[work]
    real, seen = getattr(owner, name), []

    def spy(*given, **named):
        seen.append(threads())
        return real(*given, **named)

    monkeypatch.setattr(owner, name, spy)
    call(model)
    assert seen
    assert all(found == {1} for found in seen)
