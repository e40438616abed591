"""Language models by name: presets, YAML files, and the `config.json` of published weights."""

from __future__ import annotations

from pathlib import Path

from .errors import WorkloadError
from .language_config import read_language_config
from .language_model import LanguageModel
from .spec import nearest_hint
from .validation import validate_document
from .yamlio import read_yaml

LANGUAGE_MODEL_FOLDER = Path(__file__).parent / "language_models"


def list_language_models() -> tuple[str, ...]:
    """Names of the language models that come with the package, sorted."""
    return tuple(sorted(path.stem for path in LANGUAGE_MODEL_FOLDER.glob("*.yaml")))


def load_language_model(path_or_preset: str | Path) -> LanguageModel:
    """A language model.

    Args:
        path_or_preset: Name of a preset, a YAML file, a `config.json`, or the folder that has one.

    Raises:
        WorkloadError: Neither a file nor a preset, or the file has faults, which it names.
        OSError: The file cannot be read.
    """
    text = str(path_or_preset)
    path = Path(text)
    preset = LANGUAGE_MODEL_FOLDER / f"{text}.yaml"
    if "/" not in text and "\\" not in text and preset.is_file():
        return validate_document(read_yaml(preset, WorkloadError, f"preset:{text}"), LanguageModel, WorkloadError)
    if path.is_dir() and (path / "config.json").is_file():
        return read_language_config(path / "config.json")
    if text.endswith(".json"):
        return read_language_config(path)
    if text.endswith((".yaml", ".yml")):
        return validate_document(read_yaml(path, WorkloadError, text), LanguageModel, WorkloadError)
    if path.is_dir():
        raise WorkloadError(f"{text}: a folder without a config.json; name the file")
    hint = nearest_hint(text, list_language_models())
    raise WorkloadError(f"unknown language model '{text}'{hint} (a file is a config.json or ends in .yaml)")
