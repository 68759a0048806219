"""Mail that comes in: through SES and SNS (:mod:`.ses`), or Outlook and Microsoft Graph (:mod:`.graph`)."""
