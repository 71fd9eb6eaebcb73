"""Commands for containers: health check, secrets as files, disk and certificate metrics."""
