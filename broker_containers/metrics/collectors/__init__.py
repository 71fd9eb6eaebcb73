"""What each part of a broker reports at ``/metrics``, one module per part."""
