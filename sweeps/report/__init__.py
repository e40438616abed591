"""The interactive report of a sweep: one HTML file that opens without a network."""

from .data import Note, Report, ReportDesign, ReportMetric, page_data
from .from_sweep import make_report, report_sweep
from .page import render_report, write_report

__all__ = [
    "Note",
    "Report",
    "ReportDesign",
    "ReportMetric",
    "make_report",
    "page_data",
    "render_report",
    "report_sweep",
    "write_report",
]
