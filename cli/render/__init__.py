"""Formatting of results, as text for people and in the formats of other tools. Nothing is decided here."""
