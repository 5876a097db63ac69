"""What stands in `missdp.evaluate` now; kept for one release."""

from missdp.aliases import moved_from

__getattr__ = moved_from(__name__)
