"""What somebody writes now, without what they quote. Pure.

``quotequail`` knows the lines with which common programs introduce a quote. It knows them word by word, so what holds
in every language is looked for as well: an introduction names a full date, a time and an address and ends in a colon;
a block of headers begins with a sender and has a subject.

In doubt nothing is cut: a mail that answers between the quoted lines keeps them, and so does one that says nothing
besides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from afterturn.errors import MissingExtra

_MAX_LINES = 2_000
"""Quotes are looked for in so many lines; what follows them is kept as it stands."""
_MAX_INTRODUCTION = 400
_WRAPPED = 3
_LONG = 60

_ADDRESS = re.compile(r"[^\s<>@]+@[^\s<>@]+")
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)|(?<!\d)\d{1,2}[./]\d{1,2}[./]\d\d(?!\d)")
_TIME = re.compile(r"(?<!\d)\d{1,2}[:.h]\d\d(?!\d)")
_INTRODUCES = re.compile(r"(?:[:\uff1a]|-{2,})\Z")
_RULE = re.compile(r"[-=_*\s]{3,}")
_TITLED_RULE = re.compile(r"-{3,}[^-]{3,60}-{3,}")
_LABEL = re.compile(r"[\s>*]*([^\W\d_][^\W\d_ ]{0,20}(?: [^\W\d_]{1,12}){0,2})\*?\s?[:\uff1a]\*?\s*(.*)")
# fmt: off
_SENDER = {
    "from", "von", "de", "da", "van", "från", "fra", "od", "от", "від", "lähettäjä", "kimden", "gönderen", "από",
    "发件人", "寄件者", "差出人", "보낸사람",
}
_SUBJECT = {
    "subject", "betreff", "objet", "sujet", "assunto", "asunto", "oggetto", "onderwerp", "ämne", "emne", "temat",
    "předmět", "тема", "aihe", "konu", "θέμα", "主题", "主旨", "件名", "제목",
}
# fmt: on
_TAGLINE = re.compile(
    r"(?:sent (?:from|via) my .{2,40}|sent from (?:outlook|yahoo|mail) .{2,40}|get outlook for .{2,60}"
    r"|von meinem .{2,40} gesendet|gesendet (?:von|mit) .{2,40}|outlook für .{2,60}"
    r"|envoyé (?:de|depuis) (?:mon|ma) .{2,40}|enviado (?:desde|do|de) (?:mi|meu) .{2,40}"
    r"|inviato da(?:l mio)? .{2,40}|verzonden vanaf mijn .{2,40}|(?:sendt|skickat) (?:fra|från) min .{2,40}"
    r"|wysłan[eo] z .{2,40}|отправлено с .{2,40})",
    re.I,
)


def strip_quotes(text: str) -> str:
    """What is new in a mail's text; the whole text where nothing is quoted, or where no line can be drawn.

    Raises MissingExtra.
    """
    lines = text.split("\n")
    cut = _first_quote(lines[:_MAX_LINES])
    kept = text if cut is None else _besides(lines, cut)
    return _without_tagline(kept) or text


def _besides(lines: list[str], cut: int) -> str:
    """The lines without the quote that begins at ``cut``, or all of them where it is not the last that is said."""
    above = "\n".join(lines[:cut]).strip()
    quoted = [i for i in range(cut, len(lines)) if _is_marked(lines[i])]
    if not quoted:
        return above
    below = "\n".join(_without_footer(lines[quoted[-1] + 1 :])).strip()
    between = any(
        lines[i].strip() and not _is_marked(lines[i]) and not _is_wrapped(lines, i)
        for i in range(quoted[0], quoted[-1])
    )
    if not below and not between:
        return above
    return "\n".join(lines) if above or between else below


def _is_marked(line: str) -> bool:
    return line.lstrip().startswith(">")


def _is_wrapped(lines: Sequence[str], i: int) -> bool:
    """Whether a line without a mark is the end of the quoted line above it, broken for its length."""
    return len(lines[i - 1]) >= _LONG and _is_marked(lines[i - 1]) and _is_marked(lines[i + 1])


def _first_quote(lines: Sequence[str]) -> int | None:
    """The line at which the first quote begins, with what introduces it."""
    cuts = [_known(lines), _introduction(lines), _headers(lines), _marked(lines)]
    return min((cut for cut in cuts if cut is not None), default=None)


def _known(lines: Sequence[str]) -> int | None:
    """Where quotequail sees one."""
    try:
        import quotequail  # noqa: PLC0415
    except ImportError:
        raise MissingExtra("mail needs the channels extra: pip install 'afterturn[channels]'") from None
    short = [line if len(line) <= _MAX_INTRODUCTION else "" for line in lines]
    parts = quotequail.quote("\n".join(short), limit=len(short) + 1, quote_intro_line=True)
    if len(parts) == 1:
        return None
    cut = len(lines) - len(parts[1][1].split("\n"))
    return _above_rules(lines, cut)


def _introduction(lines: Sequence[str]) -> int | None:
    """``On Mon, 2 Apr 2012 at 18:26, Jo <jo@example.com> wrote:`` in any language, on up to three lines."""
    for i, line in enumerate(lines):
        if not line.strip() or not any(char.isdigit() for char in line):
            continue
        joined = ""
        for part in lines[i : i + _WRAPPED]:
            joined = f"{joined} {part.strip()}".strip()
            if not part.strip() or len(joined) > _MAX_INTRODUCTION:
                break
            if _INTRODUCES.search(joined) and all(p.search(joined) for p in (_ADDRESS, _YEAR, _TIME)):
                return i
    return None


def _headers(lines: Sequence[str]) -> int | None:
    """``From: … Sent: … Subject: …``, with the rule or the title above them."""
    for i, line in enumerate(lines):
        label = _label(line)
        if label not in _SENDER:
            continue
        labels = [label]
        for below in lines[i + 1 : i + 12]:
            label_below = _label(below)
            if label_below:
                labels.append(label_below)
            elif not below.strip() or len(labels) == 1:
                break
        if len(labels) >= 3 and _SUBJECT.intersection(labels):
            return _above_rules(lines, i)
    return None


def _marked(lines: Sequence[str]) -> int | None:
    return next((i for i, line in enumerate(lines) if line.startswith(">")), None)


def _label(line: str) -> str:
    match = _LABEL.match(line[:200])
    return match[1].strip().replace(" ", "").lower() if match else ""


def _above_rules(lines: Sequence[str], cut: int) -> int:
    """The line at which what leads over to a quote begins: rules, a title, a date with a label."""
    top = cut
    for i in range(cut - 1, max(cut - 6, -1), -1):
        line = lines[i].strip()
        if not line:
            continue
        dated = _label(line) and _YEAR.search(line) and _TIME.search(line) and len(line) < 60
        if not (_RULE.fullmatch(line) or _TITLED_RULE.fullmatch(line) or dated):
            break
        top = i
    return top


def _without_footer(lines: list[str]) -> list[str]:
    """What stands before a signature's or a mailing list's line."""
    end = next((i for i, line in enumerate(lines) if re.fullmatch(r"(?:--|__+) ?", line)), len(lines))
    return lines[:end]


def _without_tagline(text: str) -> str:
    above, _, last = text.rstrip().rpartition("\n")
    if len(last) <= 100 and _TAGLINE.fullmatch(last.strip()) and above.strip():
        return above.strip()
    return text.strip()
