"""Who may do what: tokens, principals with grants, and the decisions that every door asks for.

``authority`` turns a token into an ``access``; ``needs`` says what each administrative method
takes; ``records`` and ``methods`` are for those who hand out tokens. Without settings everybody may
do everything.
"""
