"""The interactive report of a sweep: one HTML file that opens without a network."""

from .data import Note, Report, ReportDesign, ReportMetric, page_data
from .from_sweep import report_sweep, make_report
from .page import render_report, write_report

__all__ = [
    "Note",
    "Report",
    "ReportDesign",
    "ReportMetric",
    "page_data",
    "render_report",
    "report_sweep",
    "make_report",
    "write_report",
]
