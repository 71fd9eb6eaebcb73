"""``sulina mcp``: the operations for assistants that speak the Model Context Protocol."""
