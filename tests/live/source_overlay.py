"""A stand-in for the installed vllm package in which one source file can be edited safely.

The overlay is a directory with a `vllm` package of links to the installed one. Only the folders
down to the edited file are real, and the file is a copy. With the overlay first on PYTHONPATH all
processes of a run trace the copy; the environment itself is never written, so runs of other
tests see nothing of it, and a killed test leaves nothing to repair.

The path of a traced source file enters the 10-hex key (not the 64-hex hash): use one overlay at
one path for all runs that should share artifacts, the unedited ones included.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

LLAMA = Path("vllm/model_executor/models/llama.py")
COMMENT = "\n# a comment of the live tests\n"


@dataclass(frozen=True, slots=True)
class SourceOverlay:
    """The directory for PYTHONPATH, the file to edit in it, and the file it is a copy of."""

    directory: Path
    edited: Path
    original: Path


def make_overlay(venv: Path, directory: Path, source: Path = LLAMA) -> SourceOverlay:
    """Make the overlay in a new directory."""
    installed = next(venv.glob("lib/python3.*/site-packages"))
    overlay = SourceOverlay(directory, directory / source, installed / source)
    directory.mkdir(parents=True)
    for folder in reversed(source.parents[:-1]):
        _link_entries(installed / folder, directory / folder, but=source.parts[len(folder.parts)])
    restore_source(overlay)
    return overlay


def append_comment(overlay: SourceOverlay, comment: str = COMMENT) -> None:
    """Change the bytes of the source and nothing that it means."""
    text = overlay.original.read_text("utf-8") + comment
    _replace(overlay.edited, text.encode())


def restore_source(overlay: SourceOverlay) -> None:
    """Put the original bytes and times back."""
    _replace(overlay.edited, overlay.original.read_bytes())
    shutil.copystat(overlay.original, overlay.edited)


def _link_entries(source: Path, target: Path, but: str) -> None:
    """Link everything of one folder, less the entry that is real and the bytecode.

    Linked bytecode of a copied file would be rewritten in the environment at each edit.
    """
    target.mkdir()
    for entry in source.iterdir():
        if entry.name not in (but, "__pycache__"):
            (target / entry.name).symlink_to(entry)


def _replace(path: Path, content: bytes) -> None:
    """Swap the file in one step, so that a run that starts meanwhile reads one or the other."""
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_bytes(content)
    os.replace(temporary, path)
