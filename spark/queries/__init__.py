"""Spark's own streaming queries: planned without being started, checked, migrated, and kept beside a repository."""
