"""A filter is declared once: query, HTTP parameter, option of the command and control on the page follow from it."""

from __future__ import annotations

import typer
from fastapi import FastAPI
from pydantic.alias_generators import to_camel
from tests.contract.samples import T0
from tests.docs.reference import commands
from tests.web.rig import API

from afterturn.cli.app import app
from afterturn.inbox import InboxQuery
from afterturn.inbox.filters import FILTERS, Control
from afterturn.inbox.page import InboxPage
from afterturn.web.api.conversations import router
from afterturn.web.pages.inbox import inbox_view


def test_each_filter_is_a_parameter_of_the_api_with_the_same_description() -> None:
    app = FastAPI()
    app.include_router(router)
    parameters = app.openapi()["paths"][f"{API}/conversations"]["get"]["parameters"]
    described = {one["name"]: one.get("description") for one in parameters}
    for one in FILTERS:
        assert described[to_camel(one.filter.name)] == one.filter.help


def test_each_filter_is_an_option_of_the_command_with_the_same_help() -> None:
    (inbox,) = (command for name, command in commands(typer.main.get_command(app)) if name == "afterturn inbox")
    options = {parameter.opts[0]: parameter.help for parameter in inbox.params}
    for one in FILTERS:
        assert str(options[one.filter.option]).startswith(one.filter.help)


def test_the_page_has_a_control_for_each_filter_of_its_form() -> None:
    view = inbox_view(
        InboxQuery(),
        InboxPage((), None, complete=True, scanned=0),
        consumers=["topics"],
        paged=False,
        searches=True,
        now=T0,
    )
    controls = {one.name: one.control for one in view.groups}
    elsewhere = (Control.LINKS, Control.SEARCH, Control.NONE)
    assert controls == {one.filter.name: one.filter.control for one in FILTERS if one.filter.control not in elsewhere}
