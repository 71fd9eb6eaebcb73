"""The wire and disk formats: frames, commands, and selections of records within frames."""
