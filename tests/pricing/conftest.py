"""Shared fixtures of tests of prices."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _conditionals_of_few_rows():
    """Distributions of imputers are fitted to a tenth of the rows that a model draws for them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("missdp.pricing.model_imputer._ROWS", 2_000)
        yield
