"""ICML 2025, executable: every method of the book as a library."""

__version__ = "0.1.0"
