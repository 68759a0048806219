"""Mail lies in buckets that we name; of one that we do not, nothing is read and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.channels.channels import NOW
from tests.unit.channels.sns_rig import TOPIC

from afterturn import App, Settings
from afterturn.bootstrap import open_backbone
from afterturn.bootstrap.channels import open_channels
from afterturn.channels.sending import TryLater
from afterturn.channels.types import FetchRequest, Rejected
from afterturn.testing import ManualClock


@pytest.mark.parametrize(("buckets", "refusal"), [((), Rejected), (("mail-of-ours",), TryLater)])
async def test_mail_in_a_bucket_that_is_not_named_is_told_of_again(
    tmp_path: Path, buckets: tuple[str, ...], refusal: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    """Without a call: whoever may publish in the topic could name any bucket that we may read."""
    nowhere = "http://127.0.0.1:1"
    where = Settings(db=tmp_path / "a.db", aws_region="us-east-1", aws_endpoint_url=nowhere)
    settings = where.model_copy(update={"sns_topics": (TOPIC,), "mail_buckets": buckets})
    told = FetchRequest("s3", {"bucket": "payroll", "key": "secret", "mail_id": "m", "accounts": "", "received_at": ""})
    async with (
        open_backbone(App(shipped=False), settings, clock=ManualClock(NOW)) as backbone,
        open_channels(backbone, backbone.store, settings, backbone.clock) as webhooks,
    ):
        with pytest.raises(refusal) as refused:
            await webhooks.router.receive(told, NOW)
    if isinstance(refused.value, TryLater):
        assert refused.value.code == "foreign-bucket"
    else:
        assert "action=fetch_not_set_up" in caplog.text
