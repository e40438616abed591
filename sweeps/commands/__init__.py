"""The commands, one module each; `cli.COMMANDS` mounts them."""
