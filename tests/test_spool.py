"""Rows that are kept in a file are read again as they were, by several threads at once."""

import os
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from missdp.spool import Spool
from missdp.table.cells import to_arrow_array


def test_batches_come_back_whatever_their_types():
    columns = [
        pa.array([1, None]),
        to_arrow_array([1, "x", b"\xff"]),
        pa.array(["a", "b", "a"]).dictionary_encode(),
        pa.array([], pa.string()),
    ]
    batches = [pa.record_batch([column], names=["a"]) for column in columns]
    spool = Spool(batches)
    assert len(spool) == 8
    assert [*spool] == [*spool] == batches
    assert [*Spool([])] == []


def test_file_has_no_name_and_threads_read_it_at_once():
    spool = Spool(pa.record_batch({"a": [k] * 100}) for k in range(50))
    about = os.fstat(spool._file.fileno())
    assert (about.st_mode & 0o777, about.st_nlink, about.st_size > 0) == (0o600, 0, True)
    with ThreadPoolExecutor(8) as pool:
        sums = pool.map(lambda _: [sum(b["a"].to_pylist()) for b in spool], range(20))
    assert all(found == [100 * k for k in range(50)] for found in sums)
