"""The counter's command line."""

from datetime import date, datetime
from pathlib import Path

import click

from kiosk import logs
from kiosk.model import KINDS, Ticket
from kiosk.pricing import price
from kiosk.spool import Spool

BASE_CENTS = {"adult": 1450, "child": 600, "family": 3200, "dog": 150}


@click.group()
@click.option("--spool", type=click.Path(path_type=Path), default="spool", envvar="KIOSK_SPOOL")
@click.option("-v", "--verbose", is_flag=True)
@click.pass_context
def main(context: click.Context, spool: Path, verbose: bool) -> None:
    logs.configure(verbose)
    spool.mkdir(exist_ok=True)
    context.obj = Spool(spool)


@main.command()
@click.option("--kind", type=click.Choice(KINDS), prompt=True)
@click.option("--persons", type=click.IntRange(1, 9), default=1, show_default=True)
@click.pass_obj
def sell(spool: Spool, kind: str, persons: int) -> None:
    """Sell a ticket for today."""
    cents = price(BASE_CENTS[kind], persons, datetime.now().hour)
    ticket = Ticket(int(datetime.now().timestamp()), kind, date.today(), persons, cents)
    spool.keep(ticket)
    click.echo(f"{ticket.number}: {cents / 100:.2f}")


@main.command()
@click.confirmation_option(prompt="Drop all tickets that wait?")
@click.pass_obj
def drop(spool: Spool) -> None:
    """Forget the tickets that were not sent."""
    for path in spool.folder.glob("*.json"):
        path.unlink()
