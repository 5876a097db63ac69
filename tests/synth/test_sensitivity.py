"""One row moves what is behind each charge by at most what it declares: every family."""

import pytest

from missdp.testing import check_sensitivity
from synth.conformance import CASES, IDS


@pytest.mark.parametrize(("family", "strategy"), CASES, ids=IDS)
def test_one_row_moves_what_was_charged_for(family, strategy):
    check_sensitivity(family.build, parameters=family.options, strategies=[strategy], trials=6)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "strategy"), CASES, ids=IDS)
def test_one_row_moves_what_was_charged_for_whichever_row_it_is(family, strategy):
    check_sensitivity(
        family.build, parameters=family.options, strategies=[strategy], trials=120, seed=1
    )
