"""The metadata store: small records that brokers and storage nodes agree on.

``store`` has the interface, ``embedded`` the implementation that needs nothing but a folder,
``cas`` what is built on the interface alone, and ``keys`` one file for each family of keys.
"""

from __future__ import annotations
