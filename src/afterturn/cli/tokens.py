"""``token``: bearer tokens of the HTTP API."""

from __future__ import annotations

import secrets
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from afterturn.cli.options import Json, flag_value, settings_of
from afterturn.cli.output import facts, note, table, write_json
from afterturn.clock import parse_duration, system_clock, to_text
from afterturn.model import parse
from afterturn.web.roles import CallerRole
from afterturn.web.tokens import PREFIX, Token, add_token, digest_of, read_tokens, remove_token

app = typer.Typer(help="Bearer tokens of the HTTP API.", no_args_is_help=True)

TokensFile = Annotated[
    Path | None,
    typer.Option(
        "--tokens",
        metavar="FILE",
        help="Tokens file; default: ./afterturn-tokens.toml (AFTERTURN_TOKENS)",
    ),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token, for example its holder.")]


@app.command()
def add(
    ctx: typer.Context,
    name: Name,
    role: Annotated[
        CallerRole,
        typer.Option(
            metavar="ROLE",
            help="operator: conversations; on-call: also ledger, stream and reactions; admin: also consumers.",
        ),
    ],
    property_id: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            metavar="ID",
            help="Property that the token is limited to, or UNASSIGNED; default: all. Operators only. Repeatable.",
        ),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Lifetime, such as 90d; default: unlimited.")
    ] = None,
    tokens: TokensFile = None,
    json_: Json = False,
) -> None:
    """Create a token and print it. The file keeps only its hash."""
    path = settings_of(ctx, None, tokens=tokens).tokens
    secret = PREFIX + secrets.token_urlsafe(32)
    now = system_clock()
    until = None if expires is None else now + flag_value("--expires", _lifetime, expires)
    fields = {"name": name, "role": role, "sha256": digest_of(secret), "created_at": now, "expires_at": until}
    token = parse(Token, fields if property_id is None else {**fields, "properties": property_id})
    add_token(path, token)
    if json_:
        write_json({"token": secret, **_to_json(token)})
        return
    print(secret)
    note(f"The token is not shown again; {path} keeps only its hash. `afterturn token remove {name}` revokes it.")


@app.command("list")
def list_(ctx: typer.Context, tokens: TokensFile = None, json_: Json = False) -> None:
    """List tokens."""
    path = settings_of(ctx, None, tokens=tokens).tokens
    stored = read_tokens(path)
    if json_:
        write_json({"tokens": [_to_json(token) for token in stored]})
        return
    table(
        ("NAME", "ROLE", "PROPERTIES", "CREATED", "EXPIRES"),
        [
            (
                token.name,
                token.role.value,
                "all" if token.properties is None else ", ".join(token.properties),
                token.created_at,
                token.expires_at,
            )
            for token in stored
        ],
    )
    if not stored:
        note(f"There are no tokens in {path}; `afterturn token add NAME --role operator` makes one.")


@app.command()
def remove(ctx: typer.Context, name: Name, tokens: TokensFile = None, json_: Json = False) -> None:
    """Revoke a token. Running servers refuse it from now on and end its sessions."""
    path = settings_of(ctx, None, tokens=tokens).tokens
    remove_token(path, name)
    if json_:
        write_json({"removed": name})
    else:
        facts([("removed", name)])


def _lifetime(text: str) -> timedelta:
    length = parse_duration(text)
    if length <= timedelta(0):
        raise ValueError("has to be longer than 0s; leave the option out for an unlimited token")
    return length


def _to_json(token: Token) -> dict[str, object]:
    return {
        "name": token.name,
        "role": token.role.value,
        "properties": None if token.properties is None else list(token.properties),
        "createdAt": to_text(token.created_at),
        "expiresAt": None if token.expires_at is None else to_text(token.expires_at),
    }
