"""Old descriptions against new ones: verdicts, explanations, plans. Opens no file."""
