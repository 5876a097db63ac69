"""Code books that offices already have, read into schemas: names, levels, bounds, skip rules.

Nothing is read but the code book: no row of data, no network. A fact that is not in it stays for a
person to write; what cannot be translated is listed, never guessed.
"""

from missdp.codebooks.book import CodeBook
from missdp.codebooks.read import read_codebook

__all__ = ["CodeBook", "read_codebook"]
