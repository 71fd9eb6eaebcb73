"""The command ``sulina mcp``: a session on standard input and output."""

from __future__ import annotations

import sys

import click

from sulina.cli.command import CliCommand
from sulina.cli.running import connected, run
from sulina.cli.settings import CliSettings


@click.command(
    cls=CliCommand,
    examples=[
        "sulina mcp",
        "sulina mcp --url sulina://broker.example:6655 --allow-changes",
    ],
)
@click.option(
    "--allow-changes",
    is_flag=True,
    help="Offer operations that change something, too. What the token may do still counts.",
)
def mcp(settings: CliSettings, allow_changes: bool) -> None:
    """Serve the operations to an assistant, over the Model Context Protocol.

    Assistants start this command and talk to it on standard input and output. They get the rights
    of the token that the command has, and by default may only read. Give them a token of their
    own: `sulina security token create assistant --grant 'lookup:*'`.
    """
    from sulina.cli.mcp.session import McpSession
    from sulina.cli.mcp.tools import Tools
    from sulina.cli.pipes import lines_of

    async def work() -> None:
        async with connected(settings) as client:
            session = McpSession(Tools(client.admin, changes=allow_changes))
            async for lines in lines_of(sys.stdin.fileno(), lambda _: None):
                for line in lines:
                    answer = await session.answer(line) if line.strip() else None
                    if answer is not None:
                        sys.stdout.buffer.write(answer + b"\n")
                        sys.stdout.buffer.flush()

    run(work())
