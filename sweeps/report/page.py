"""Put the report together: one HTML file with its data, style and script inside, which fetches nothing."""

from __future__ import annotations

import html
import json
import re
from importlib import resources
from pathlib import Path
from typing import Final

from .data import Report, page_data

SCRIPTS: Final = ("base.js", "front.js", "detail.js", "main.js")


def render_report(report: Report) -> str:
    """The report as HTML; equal reports give equal text."""
    fields = {
        "title": html.escape(report.title),
        "style": _asset("style.css"),
        "script": "".join(map(_asset, SCRIPTS)),
        "data": _embeddable_json(page_data(report)),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: fields[match[1]], _asset("page.html"))


def write_report(report: Report, path: Path) -> Path:
    """Write the report.

    Args:
        report: What to show.
        path: The HTML file; its folder is made.

    Returns:
        The path.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_report(report), encoding="utf-8")
    return path


def _asset(name: str) -> str:
    return resources.files(__package__ or "").joinpath("assets", name).read_text(encoding="utf-8")


def _embeddable_json(value: object) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
