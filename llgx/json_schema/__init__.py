"""JSON Schema to grammars."""
