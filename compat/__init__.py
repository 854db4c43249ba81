"""Old descriptions against new ones: verdicts, explanations, plans, and the transcoding of entries. Opens no file."""
