"""Authentication and authorization: tokens, principals, grants, roles and bindings.

``authority`` resolves a token to an ``access``, which doors check before they act; ``records``
creates and deletes tokens and grants. Without ``settings`` clients need no token and may do
everything.
"""
