"""Hypothesis strategies for events and conditions."""

from hypothesis import strategies as st

from missdp.accounting import (
    ApproximateEvent,
    Assumption,
    BoundedObservation,
    DataDependentDomain,
    DatasetCollection,
    DeclaredRowCount,
    EigenGap,
    ExplicitSeed,
    FixedSchedule,
    GaussianEvent,
    LaplaceEvent,
    MissingCompletelyAtRandom,
    ObservedAtMost,
    PublicDomain,
    PureEvent,
    RDPEvent,
    RowIndependentMissingness,
    SampledGaussianEvent,
    SelectionEvent,
    ZCDPEvent,
)

names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=5)
required_sets = st.none() | st.frozensets(names, max_size=3)
small = st.floats(0.001, 2.0)


def _event(kind, **fields):
    return st.builds(kind, label=st.text(max_size=5), required=required_sets, **fields)


pure = _event(PureEvent, epsilon=small)
selection = _event(SelectionEvent, epsilon=small)
laplace = _event(
    LaplaceEvent, sensitivity=st.floats(1, 5), scale=st.floats(0.5, 50), discrete=st.booleans()
)
gaussian = _event(
    GaussianEvent, sensitivity=st.floats(1, 1.9), sigma=st.floats(1, 50), discrete=st.booleans()
)
zcdp = _event(ZCDPEvent, rho=st.floats(0, 1))
approximate = _event(ApproximateEvent, epsilon=small, delta=st.floats(0, 1e-9))
sampled = _event(
    SampledGaussianEvent,
    rate=st.floats(0.001, 0.2),
    noise_multiplier=st.floats(0.8, 4),
    steps=st.integers(1, 20),
)
tabulated = st.builds(RDPEvent, orders=st.just((2.0, 8.0, 32.0)), epsilons=st.just((0.1, 0.4, 1.6)))
elementary = st.one_of(pure, selection, laplace, gaussian, zcdp, approximate, sampled, tabulated)
pure_events = st.one_of(pure, selection, laplace)

conditions = st.one_of(
    st.builds(MissingCompletelyAtRandom, st.dictionaries(names, st.floats(0, 1), max_size=3)),
    st.builds(ObservedAtMost, st.dictionaries(names, st.floats(0, 1), max_size=3)),
    st.just(RowIndependentMissingness()),
    st.builds(BoundedObservation, st.floats(0, 1)),
    st.builds(DatasetCollection, st.integers(0, 99), st.integers(1, 99), st.text(max_size=9)),
    st.builds(EigenGap, st.integers(1, 9), st.floats(0.01, 1)),
    st.builds(PublicDomain, st.text(max_size=9)),
    st.builds(DataDependentDomain, st.lists(names, min_size=1, max_size=3)),
    st.builds(DeclaredRowCount, st.integers(0, 10**6)),
    st.just(ExplicitSeed()),
    st.just(FixedSchedule()),
    st.builds(Assumption, st.just("The sky is blue.")),
)
