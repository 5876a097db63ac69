"""Released numbers one by one carry the error bar that their mechanism states."""

import numpy as np
import pytest

from missdp.accounting import PureEvent
from missdp.errors import ParameterError
from missdp.session import Measurement
from missdp.statistics.noisy import noisy_numbers

EVENT = PureEvent(epsilon=0.5)


def test_noisy_number_interval_has_the_stated_half_width():
    measured = Measurement(np.array([7.0]), None, EVENT, lambda level: 7 * level)
    (number,) = noisy_numbers(measured)
    assert number.within(0.5) == (3.5, 10.5)
    assert number.within(0.5, times=2.0) == (5.25, 8.75)


def test_noisy_numbers_without_error_bar_raises():
    with pytest.raises(ParameterError, match="states no error bar"):
        noisy_numbers(Measurement(np.array([7.0]), None, EVENT))
