"""Stands between Pulumi's plugin and moto, and adds what the plugin needs and moto lacks.

``server`` forwards, and lets nothing past the emulator; each other module completes one service.
"""
