"""iperf3's JSON documents in a text: several in a row, events of `--json-stream`, and what was cut off."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cwndlab.errors import InputError

_BEGIN = re.compile(r"^[ \t]*\{", re.MULTILINE)
_BEHIND = re.compile(r"[ \t]*\{")
_STRAY_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*+"|-?\b(?:nan|inf(?:inity)?)\b', re.IGNORECASE)
_HAS_STRAY_NUMBER = re.compile(r"[:\[,]\s*-?(?:nan|inf)", re.IGNORECASE)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|"|[{}\[\]]')
_CLOSING = {"{": "}", "[": "]"}
_OF_INTERVAL = ("socket", "start", "end", "bytes", "retransmits", "snd_cwnd", "rtt", "omitted", "sender")
"""Keys of a stream's interval that are kept: the others would take most of the memory."""


@dataclass
class Document:
    """Document that iperf3 wrote of one run."""

    content: dict[str, Any]
    remarks: list[str] = field(default_factory=list)
    """Remarks on what else stands in the file before it, or after the last one, and where it was cut off."""


def documents(path: Path, text: str) -> Iterator[Document]:
    """The documents, each with `start`, `intervals`, `end` and `error` as far as they are there.

    Text around documents is passed over, with a remark. Numbers that JSON does not have (`-nan`, `inf`)
    become null. Raises InputError for a document that is damaged other than by its end missing.
    """
    if _HAS_STRAY_NUMBER.search(text):
        text = _STRAY_NUMBER.sub(lambda found: found[0] if found[0].startswith('"') else "null", text)
    ready: Document | None = None
    streamed = Document({})
    for content, remarks in _objects(path, text):
        event = content.get("event")
        if event is None:
            if content:
                if ready:
                    yield ready
                ready = Document(content, remarks)
                continue
        elif event == "start" and streamed.content:
            if ready:
                yield ready
            ready, streamed = streamed, Document({})
        if event == "interval":
            streamed.content.setdefault("intervals", []).append(content.get("data"))
        elif event in ("start", "end", "error"):
            streamed.content[event] = content.get("data")
        (streamed if streamed.content or not ready else ready).remarks.extend(remarks)
    for document in (ready, streamed):
        if document and document.content:
            yield document


def _lean(found: dict[str, Any]) -> dict[str, Any]:
    """An interval without what nobody asks of it: sums over streams, and other keys of theirs."""
    streams = found.get("streams")
    if not isinstance(streams, list) or not found.keys() <= {"streams", "sum", "sum_bidir_reverse"}:
        return found
    kept = [
        # Of the end, a stream holds what each side says, and no socket itself.
        {key: stream[key] for key in _OF_INTERVAL if key in stream}
        if isinstance(stream, dict) and "socket" in stream
        else stream
        for stream in streams
    ]
    return {"streams": kept}


def _objects(path: Path, text: str) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """The objects of a text, with remarks on what stands before each; one without content holds the last."""
    decoder = json.JSONDecoder(parse_constant=lambda _: None, object_hook=_lean)
    at = 0
    while True:
        begin = _BEHIND.match(text, at) or _BEGIN.search(text, at)
        remarks = _passed_over(text[at : begin.start() if begin else len(text)])
        if begin is None:
            if remarks:
                yield {}, remarks
            return
        start = begin.end() - 1
        try:
            found, at = decoder.raw_decode(text, start)
        except RecursionError:
            raise InputError(f"{path}:{_line(text, start)}: not JSON: nested too deeply") from None
        except ValueError as error:
            place = getattr(error, "pos", start)
            kept, at = _cut(text, start, place)
            if kept is None:
                message = getattr(error, "msg", "damaged")
                raise InputError(f"{path}:{_line(text, place)}: not JSON: {message}") from None
            found = kept
            remarks.append(f"the document breaks off in line {_line(text, place)}")
        yield found, remarks


def _passed_over(text: str) -> list[str]:
    lines = [line.strip() for line in text.split("\n") if line.strip(" \t\r\ufeff")]
    if not lines:
        return []
    return [f"text beside the document is not read: {lines[0][:120]}"]


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _cut(text: str, start: int, damage: int) -> tuple[dict[str, Any] | None, int]:
    """The objects that are whole in a document without its end, closed, and where the text after it begins;
    None for a document that has an end, so that `damage` is inside it."""
    opened: list[str] = []
    whole, closing = start, ""
    for token in _TOKEN.finditer(text, start):
        mark = token[0]
        if mark == '"' or (mark[0] not in "{}[]" and "\n" in mark):
            break  # a string that never ends
        if mark in _CLOSING:
            opened.append(mark)
            if len(opened) > 100:
                return None, start
        elif mark in ("}", "]"):
            if not opened or _CLOSING[opened.pop()] != mark or not opened:
                return None, start
            if mark == "}" and token.end() <= damage:
                whole = token.end()
                closing = "".join(_CLOSING[each] for each in reversed(opened))
    after = text.find("\n", damage)
    after = after + 1 if after >= 0 else len(text)
    if whole == start:
        return {}, after
    try:
        found = json.loads(text[start:whole] + closing)
    except ValueError:
        return None, start
    return found, after
