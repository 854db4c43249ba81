"""The backend that keeps state as Python objects in memory."""
