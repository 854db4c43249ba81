"""The commands, one module each; `app` imports the requested one."""
