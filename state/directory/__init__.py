"""The state directory of a streaming query, as it is stored: manifests, epochs, and which of them are committed."""
