"""The page of ``missdp app``: five steps from a private table to a published release.

The page runs commands of ``missdp`` in processes of their own, and shows each command line. It has
no computations of its own. Private data stay in memory, and the server listens on 127.0.0.1 only.
"""
