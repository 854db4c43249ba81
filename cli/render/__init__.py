"""What was found, as text for people and as the formats of other tools. Nothing is decided here."""
