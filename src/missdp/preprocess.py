"""What `missdp.pricing` was called until version 0.2: its names, with a warning."""

from missdp.aliases import moved_from

__getattr__ = moved_from(__name__)
