"""Benchmarks: programs that print figures measured side by side in one run, with their ratios. See README.md."""
