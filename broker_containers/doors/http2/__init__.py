"""HTTP/2 on the server's side as a protocol without I/O: bytes in, a handler's calls and bytes out.

``connection`` is the state machine, ``hpack`` reads and writes headers, ``frames`` has the layout
of frames, ``limits`` what a client may do. Nothing here knows gRPC, sockets or clocks.
"""
