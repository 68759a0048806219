"""Outlook: the mailboxes of a Microsoft tenant, by Microsoft Graph."""

from __future__ import annotations

from pydantic import BaseModel, Field, SecretStr

from afterturn.channels.provider import Provider
from afterturn.setting_types import ServiceUrl, Words


class OutlookSettings(BaseModel):
    """The application that reads and sends, and its mailboxes."""

    graph_tenant: str | None = Field(None, description="Microsoft tenant whose mailboxes are read and answered.")
    graph_client_id: str | None = Field(
        None, description="Application registered in that tenant, with Mail.ReadWrite and Mail.Send."
    )
    graph_client_secret: SecretStr | None = Field(None, description="Client secret of that application.")
    graph_client_state: SecretStr | None = Field(
        None, description="clientState of the Graph subscriptions. Notifications have to repeat it."
    )
    graph_mailboxes: Words = Field(
        (),
        description="Mailboxes to subscribe to and poll, separated by commas. No other mailbox is read.",
    )
    graph_api: ServiceUrl = Field(
        "https://graph.microsoft.com",
        description="Base URL of Microsoft Graph, for example that of a national cloud.",
    )
    graph_login: ServiceUrl = Field(
        "https://login.microsoftonline.com", description="Base URL of the login that belongs to graph_api."
    )


PROVIDER = Provider(
    name="outlook",
    settings=OutlookSettings,
    opened_by="graph_client_state",
    module="afterturn.channels.outlook.webhook",
    mailboxes="graph_mailboxes",
)
