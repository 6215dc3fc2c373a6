"""Commands that write HTML pages."""
