"""The administrative operations of a broker, each declared once, and their typed client.

``declaration`` is how an operation is declared; ``json_forms`` and ``json_types`` are how its
values look in JSON. The other modules declare the operations, by subject, and ``client`` puts them
together. Handlers are in ``broker_containers.operations``.
"""
