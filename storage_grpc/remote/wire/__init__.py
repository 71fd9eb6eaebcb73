"""What both ends of the storage service agree on; ``storage.proto`` says it for everybody else.

``layout`` is what the bytes of entries and outcomes mean, ``codes`` what errors are called,
``service`` the names of the methods and how connections are set up.
"""
