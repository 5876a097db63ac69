"""Reading of existing code books into schemas: names, levels, bounds and skip rules.

Only the code book is read, without data and without a network. A person must add facts that the
code book lacks. Facts that cannot be translated are listed, and nothing is guessed.
"""

from missdp.codebooks.book import CodeBook
from missdp.codebooks.read import read_codebook

__all__ = ["CodeBook", "read_codebook"]
