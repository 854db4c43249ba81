"""Comparison of old and new descriptions of state: verdicts, explanations, plans. It opens no files."""
