"""The text that a person sees in an HTML mail."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

_BREAKS = {"br", "p", "div", "tr", "li", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "table", "ul", "ol", "hr"}
_UNSEEN = {"head", "script", "style", "title", "template"}
_TAG = re.compile(r"<[^<>]*>")
_UNCLOSED = re.compile(r"<(?=[^<>]*(?:<|\Z))")
_SPACES = re.compile(r"[ \t\r\f\v\u00a0]+")
_BLANK_LINES = re.compile(r"\n\s*\n\s*")


def html_to_text(html: str) -> str:
    """Text with line breaks where blocks begin; markup that no parser can follow is cut out tag by tag."""
    reader = _Reader()
    try:
        reader.feed(_tame(html))
        reader.close()
        text = "".join(reader.pieces)
    except AssertionError:  # html.parser's word for a broken declaration
        text = unescape(_TAG.sub(" ", html))
    lines = (_SPACES.sub(" ", line).strip() for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()


def _tame(html: str) -> str:
    """The same page without comments and with every tag closed.

    html.parser takes the square of a page's length to find that a tag or a comment never ends, which is a minute for
    a hundred kilobytes of them.
    """
    first, *rest = html.split("<!--")
    seen = "".join([first, *(piece.partition("-->")[2] for piece in rest)])
    return _UNCLOSED.sub("&lt;", seen)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._unseen: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "body":
            self._unseen = None
        elif tag in _UNSEEN:
            self._unseen = self._unseen or tag
        elif tag in _BREAKS:
            self.pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._unseen:
            self._unseen = None
        elif tag in _BREAKS and tag != "br":
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            # Line breaks of the source are only spaces; those of the page come from its tags.
            self.pieces.append(data.replace("\n", " "))
