"""Numbers, booleans, texts and bytes: the families of single values."""
