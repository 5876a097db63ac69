"""MST: a spanning tree of two-way marginals, from complete or incomplete tables."""

from missdp.synth.mst.estimator import MST

__all__ = ["MST"]
