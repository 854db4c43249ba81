"""The state of a streaming query between its batches: manifests, the state directory, slots. It knows no engine."""
