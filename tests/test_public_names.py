"""What a user can reach from the top."""

import subprocess
import sys

import pytest

import missdp


def test_every_public_name_is_there():
    assert all(hasattr(missdp, name) for name in missdp.__all__)
    assert set(missdp.__all__) <= set(dir(missdp))
    for room in (
        "missingness",
        "evaluate",
        "accounting",
        "preprocess",
        "statistics",
        "testing",
        "ground_truth",
    ):
        assert room in dir(missdp)
        assert getattr(missdp, room).__name__ == f"missdp.{room}"
    with pytest.raises(AttributeError, match="nothing_here"):
        _ = missdp.nothing_here


def test_rooms_can_be_used_after_a_plain_import():
    code = "import missdp; missdp.missingness.MCAR(rate=0.1); missdp.evaluate.LEARNERS"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_nothing_heavy_is_imported_before_it_is_needed():
    code = "import sys, missdp, missdp.cli.main; assert not {'numpy', 'typer'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
