"""The asyncio client: ``sulina.connect`` and what it gives. Import from ``sulina`` itself."""
