"""``python -m missdp``: the command, where its script is not on the path."""

from missdp.cli.main import run

if __name__ == "__main__":
    run()
