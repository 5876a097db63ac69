"""The ``missdp`` command: a thin shell over the Python API."""
