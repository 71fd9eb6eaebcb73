"""What both ends of the storage service share; ``storage.proto`` is its specification.

``layout`` encodes entries and outcomes, ``codes`` maps errors to codes, ``handshake`` explains TLS
failures, ``service`` has the names of the methods and the options of connections.
"""
