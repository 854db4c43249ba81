"""The commands, a module each; `app` imports the one that is asked for."""
