"""Requests that two parsers on the way could read differently, and the one meaning each has here.

Each vector is followed by AFTER, a plain request. What hides in a vector asks for `/smuggled`,
which nobody may ever see.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

AFTER = b"GET /after HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
HIDDEN = b"GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"


@dataclass(frozen=True)
class Refused:
    """One 400 in JSON, the connection ends, and no handler has seen a request."""


@dataclass(frozen=True)
class Broken:
    """The head is taken, its body is not: one 400 in JSON, and the connection ends."""


@dataclass(frozen=True)
class Taken:
    """A request with a body of `size` bytes, then AFTER."""

    size: int = 0


@dataclass(frozen=True)
class TakenThenRefused:
    """A request without a body; what follows is not one: 200, then 400 and the end."""


@dataclass(frozen=True)
class TakenAndClosed:
    """A request that ends the connection; with more behind it the parser may refuse both."""


@dataclass(frozen=True)
class UpgradeDeclined:
    """A request that is answered as if it had not asked; then the connection ends."""


Outcome = Refused | Broken | Taken | TakenThenRefused | TakenAndClosed | UpgradeDeclined
Vector = tuple[str, bytes, Outcome]

CHUNKED = b"5\r\nhello\r\n0\r\n\r\n"
HIDING = b"0\r\n\r\n" + HIDDEN
"""Ends a chunked body at once; as a body of known length it hides a request."""


def post(*lines: bytes, body: bytes = b"", version: bytes = b"HTTP/1.1") -> bytes:
    head = [b"POST /length " + version, b"host: x", *lines]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def vectors() -> list[Vector]:
    found = [
        *_transfer_encodings(),
        *_lengths(),
        *_both(),
        *_line_ends(),
        *_names(),
        *_values(),
        *_request_lines(),
        *_one_way_to_write_a_line(),
        *_hosts(),
        *_chunks(),
        *_twice(),
        *_versions(),
        *_methods(),
    ]
    names = [name for name, _, _ in found]
    assert len(names) == len(set(names)), "each vector has a name of its own"
    return found


def _transfer_encodings() -> Iterator[Vector]:
    for value in (b"chunked", b"Chunked", b"CHUNKED", b" chunked", b"\tchunked", b"chunked "):
        yield f"te {value!r}", post(b"transfer-encoding:" + value, body=CHUNKED), Taken(5)
    for value in (
        *(b"xchunked", b"chunkedx", b"chunke", b"chunked, identity", b"identity, chunked"),
        *(b"chunked, chunked", b"gzip, chunked", b"chunked, gzip", b"identity", b"gzip", b""),
        *(b"chunked;q=1", b'"chunked"', b"chunked,", b",chunked", b"chunked\x00", b"\x00chunked"),
        *(b"chun\x00ked", b"\x0bchunked", b"chunked\x0b", b"\x0cchunked", b"chunked\xa0"),
        *(b"\xa0chunked", b"ch\xc3\xbcnked", b"chunked\rx", b"\x7fchunked", b"chun ked"),
        *(
            b"chunked \t",
            b"chunked identity",
            b"none",
            b"*",
            b"trailers, chunked",
            b"cow",
            b"chunked\x1f",
        ),
    ):
        for length in (b"", b"6"):
            lines = [b"transfer-encoding:" + value]
            if length:
                lines.append(b"content-length: " + length)
            name = f"te {value!r}{' with a length' if length else ''}"
            yield name, post(*lines, body=HIDING), Refused()
    for one, two in (
        *((b"chunked", b"chunked"), (b"chunked", b"identity"), (b"identity", b"chunked")),
        *((b"chunked", b""), (b"", b"chunked"), (b"chunked", b"x"), (b"gzip", b"chunked")),
    ):
        lines = [b"transfer-encoding: " + one, b"Transfer-Encoding: " + two]
        yield f"te twice {one!r} {two!r}", post(*lines, body=HIDING), Refused()


def _lengths() -> Iterator[Vector]:
    for value in (b"5", b" 5", b"5 ", b"\t5\t", b"05", b"0000000005"):
        yield f"cl {value!r}", post(b"content-length:" + value, body=b"hello"), Taken(5)
    for value in (
        *(b"+5", b"-5", b"0x5", b"5.0", b"5e0", b"", b"abc", b"5\x00", b"\x005", b"5,5", b"5, 5"),
        *(b"5, 6", b"5;6", b"5_0", b"0_5", b"\xef\xbc\x95", b"\xc2\xb2", b"\x0b5", b"5\x0c"),
        *(b"5 5", b"'5'", b'"5"', b"99999999999999999999", b"18446744073709551621", b"5\rx"),
        *(b"5a", b"a5", b"--5", b"0b101", b"5L", b"\xa05", b"5\xa0", b"(5)", b"5,"),
    ):
        yield f"cl {value!r}", post(b"content-length:" + value, body=b"hello"), Refused()
    for one, two in (
        (b"5", b"5"),
        (b"5", b"6"),
        (b"0", b"5"),
        (b"5", b"0"),
        (b"5", b""),
        (b"", b"5"),
    ):
        lines = [b"content-length: " + one, b"Content-Length: " + two]
        yield f"cl twice {one!r} {two!r}", post(*lines, body=b"hello"), Refused()
    hidden = post(b"content-length: %d" % len(HIDDEN), body=HIDDEN)
    yield "a request as a body", hidden, Taken(len(HIDDEN))


def _both() -> Iterator[Vector]:
    """CL.TE and TE.CL in either order, and disguised."""
    chunked = b"transfer-encoding: chunked"
    for length in (b"0", b"4", b"%d" % len(HIDING), b"999"):
        line = b"content-length: " + length
        yield f"cl {length!r} then te", post(line, chunked, body=HIDING), Refused()
        yield f"te then cl {length!r}", post(chunked, line, body=HIDING), Refused()
    for name in (
        *(b"transfer-encoding ", b"transfer-encoding\t", b" transfer-encoding"),
        *(b"\ttransfer-encoding", b"transfer-encoding\x0b", b"\x0btransfer-encoding"),
        *(b"transfer-encoding\x00", b"transfer-encod\xc4\xb1ng", b"transfer encoding"),
    ):
        line = name + b": chunked"
        yield f"{name!r} and cl", post(b"content-length: 6", line, body=HIDING), Refused()
        yield f"{name!r} first", post(line, b"content-length: 6", body=HIDING), Refused()
    for name in (b"transfer_encoding", b"x-transfer-encoding", b"transferencoding", b"te"):
        line = name + b": chunked"
        yield f"{name!r} is not it", post(line, b"content-length: 5", body=b"hello"), Taken(5)
        yield f"{name!r} alone", post(line, body=CHUNKED), TakenThenRefused()
    for name in (b"content-length ", b" content-length", b"content-length\t", b"content length"):
        yield f"{name!r} and te", post(chunked, name + b": 5", body=HIDING), Refused()
    for name in (b"content_length", b"x-content-length"):
        yield f"{name!r} is not it", post(chunked, name + b": 3", body=CHUNKED), Taken(5)


def _line_ends() -> Iterator[Vector]:
    plain = b"POST /length HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello"
    yield "an empty line first", b"\r\n" + plain, Taken(5)
    yield "empty lines first", b"\r\n\r\n" + plain, Taken(5)
    for name, sent in {
        "lf first": b"\n" + plain,
        "cr first": b"\r" + plain,
        "an empty line and cr first": b"\r\n\r" + plain,
        "lf cr first": b"\n\r" + plain,
        "lf after the request line": plain.replace(b"1.1\r\n", b"1.1\n"),
        "lf after a header": plain.replace(b"x\r\n", b"x\n"),
        "lf after the last header": plain.replace(b"5\r\n\r\n", b"5\n\r\n"),
        "lf as the empty line": plain.replace(b"\r\n\r\n", b"\r\n\n"),
        "lf everywhere": plain.replace(b"\r\n", b"\n"),
        "cr after the request line": plain.replace(b"1.1\r\n", b"1.1\r"),
        "cr after a header": plain.replace(b"x\r\n", b"x\r"),
        "cr everywhere": plain.replace(b"\r\n", b"\r"),
        "cr cr lf": plain.replace(b"x\r\n", b"x\r\r\n"),
        "lf cr": plain.replace(b"x\r\n", b"x\n\r"),
        "nul before crlf": plain.replace(b"x\r\n", b"x\0\r\n"),
        "lf in a header hides te": plain.replace(b"x\r\n", b"x\nTransfer-Encoding: chunked\r\n"),
        "cr in a header hides te": plain.replace(b"x\r\n", b"x\rTransfer-Encoding: chunked\r\n"),
        "a folded header": plain.replace(b"x\r\n", b"x\r\na: b\r\n c\r\n"),
        "a folded header with a tab": plain.replace(b"x\r\n", b"x\r\na: b\r\n\tc\r\n"),
        "a folded te": plain.replace(b"x\r\n", b"x\r\nTransfer-Encoding:\r\n chunked\r\n"),
        "a folded length": plain.replace(b": 5", b":\r\n 5"),
        "a length folded in two": plain.replace(b": 5", b": 5\r\n 5"),
        "a fold before the first header": plain.replace(b"1.1\r\n", b"1.1\r\n "),
        "a line of a blank": plain.replace(b"x\r\n", b"x\r\n \r\n"),
        "a folded host": plain.replace(b"host: x", b"host:\r\n x"),
        "vt for lf": plain.replace(b"x\r\n", b"x\x0b"),
        "nel for crlf": plain.replace(b"x\r\n", b"x\xc2\x85"),
    }.items():
        yield name, sent, Refused()


def _names() -> Iterator[Vector]:
    for name in (
        *(b"", b" ", b"a ", b"a\t", b" a", b"a b", b"a\x00", b"\x00", b"a\x01", b"a\x7f", b"a\xff"),
        *(b"a(", b"a)", b"a<", b"a@", b"a,", b"a;", b'a"', b"a/", b"a[", b"a]", b"a{", b"a}"),
        *(b"a=", b"a\\", b"a?", b"\xef\xbb\xbfa", b"a\r", b"a\x0c"),
    ):
        yield f"name {name!r}", post(name + b": b", b"content-length: 5", body=b"hello"), Refused()
    for line in (b"no colon", b"nocolon", b"=a", b"a=b"):
        yield f"line {line!r}", post(line, b"content-length: 5", body=b"hello"), Refused()
    for name in (b"a!#$%&'*+-.^_`|~9", b"A", b"9"):
        yield f"name {name!r}", post(name + b": b", b"content-length: 5", body=b"hello"), Taken(5)


def _values() -> Iterator[Vector]:
    for value in (
        b"\x00",
        b"b\x00",
        b"b\x01c",
        b"b\x08",
        b"b\x0bc",
        b"b\x0cc",
        b"b\x1b",
        b"b\x7fc",
    ):
        yield f"value {value!r}", post(b"a: " + value), Refused()
    for value in (b"", b"b:c", b"b\tc", b"\xc3\xa9", b"\xff", b":", b"b,c;d"):
        yield f"value {value!r}", post(b"a: " + value), Taken()


def _request_lines() -> Iterator[Vector]:
    rest = b"\r\nhost: x\r\n\r\n"
    for line in (
        *(
            b"GET\t/length HTTP/1.1",
            b"GET /length\tHTTP/1.1",
            b" GET /length HTTP/1.1",
            b"\tGET /length HTTP/1.1",
        ),
        *(b"GET /length HTTP/1.1\x00", b"GET\x00/length HTTP/1.1", b"GET /len\x00gth HTTP/1.1"),
        *(b"GET /a b HTTP/1.1", b"GET HTTP/1.1", b"GET /length", b"/length HTTP/1.1", b"GET"),
        *(b"GET /length HTTP/1.1 HTTP/1.1", b"GET /length HTTP/1.1x", b"GET /length HTTP/11"),
        *(b"GET /length HTTP/1.10", b"GET /length HTTP/01.1", b"GET /length HTTP/1.", b"GET / 1.1"),
        *(b"GET /length HTTP 1.1", b"GET /length http/1.1", b"GET /length HTTP/1,1"),
        *(b"GET /length HTTP/1.2", b"GET /length HTTP/2.0", b"GET /length HTTP/0.9"),
        *(b"GET /length HTTP/9.9", b"GET /length ICAP/1.0", b"GET /length RTSP/1.0"),
        *(b"G\x01T /length HTTP/1.1", b"G(T /length HTTP/1.1", b"G\xc3\x89T /length HTTP/1.1"),
        *(
            b"GET length HTTP/1.1",
            b"GET x:80 HTTP/1.1",
            b"GET * HTTP/1.1",
            b"GET \\length HTTP/1.1",
        ),
        *(b"GET /len\x7fgth HTTP/1.1", b"GET /len\x01gth HTTP/1.1", b"GET /len\x0bgth HTTP/1.1"),
        *(b"GET ftp://x/length HTTP/1.1", b"GET /length\x0cHTTP/1.1", b"GET ?a HTTP/1.1"),
        *(b"GET http:/length HTTP/1.1", b"GET  HTTP/1.1"),
    ):
        yield f"line {line!r}", line + rest, Refused()
    for line in (
        *(b"GET /length HTTP/1.1", b"GET /length?a=b HTTP/1.1", b"GET http://x/length HTTP/1.1"),
        *(b"GET HTTP://other:80/length HTTP/1.1", b"GET /%6cength HTTP/1.1", b"GET //x HTTP/1.1"),
        *(b"GET /../length HTTP/1.1", b"GET /length?a?b HTTP/1.1"),
    ):
        yield f"line {line!r}", line + rest, Taken()


def _one_way_to_write_a_line() -> Iterator[Vector]:
    """Other versions than the two, blanks more than one, fragments, tunnels to nowhere."""
    rest = b"\r\nhost: x\r\n\r\n"
    for line in (
        *(b"GET  /length HTTP/1.1", b"GET /length  HTTP/1.1", b"GET   /length   HTTP/1.1"),
        *(b"POST  /length HTTP/1.0", b"GET  http://x/length HTTP/1.1", b"OPTIONS  * HTTP/1.1"),
        *(b"GET /length#a HTTP/1.1", b"GET /length?a#b HTTP/1.1", b"GET /# HTTP/1.1"),
        *(b"GET http://x/length#a HTTP/1.1", b"GET #a HTTP/1.1", b"GET /length#?a HTTP/1.1"),
        *(b"GET /length HTTP/0.9", b"GET /length HTTP/2.0", b"GET /length HTTP/3.0"),
        *(b"GET /length HTTP/2", b"POST /length HTTP/2.0", b"POST /length HTTP/0.9"),
        *(b"CONNECT ", b"CONNECT", b"CONNECT  HTTP/1.1", b"CONNECT x:80", b"CONNECT / HTTP/1.1"),
        *(b"CONNECT  ", b"CONNECT : HTTP/1.1", b"CONNECT x HTTP/1.1", b"CONNECT [ HTTP/1.1"),
        *(b"PRI * HTTP/2.0", b"GET ", b"GET  ", b"POST ", b"OPTIONS *"),
    ):
        yield f"one way: {line!r}", line + rest, Refused()
        yield f"one way: {line!r} alone", line + b"\r\n\r\n", Refused()
    first = b"GET /length HTTP/1.1\r\nhost: x\r\n\r\n"
    # The same line was there before, written as it should be.
    again = first + b"GET  /length HTTP/1.1" + rest
    yield "one way: two blanks behind the same line with one", again, TakenThenRefused()
    for line in (b"GET  /smuggled HTTP/1.1", b"GET /smuggled#a HTTP/1.1", b"GET /smuggled"):
        yield f"one way: {line!r} behind another", first + line + rest, TakenThenRefused()


def _hosts() -> Iterator[Vector]:
    yield "no host", b"GET /length HTTP/1.1\r\n\r\n", Refused()
    for name, lines in {
        "two hosts": (b"host: x", b"host: y"),
        "two hosts alike": (b"host: x", b"Host: x"),
        "a host with a blank": (b"host: x y",),
        "a host with a comma": (b"host: x, y",),
        "a host with a path": (b"host: x/y",),
        "a host with a user": (b"host: u@x",),
        "a host with a query": (b"host: x?y",),
        "a host with a fragment": (b"host: x#y",),
        "a host with a long port": (b"host: x:123456",),
        "a host with a word for a port": (b"host: x:http",),
        "a host with a nul": (b"host: x\0",),
        "a host in brackets": (b"host: [x]",),
        "a host header with a blank": (b"host : x",),
        "a hidden host": (b"host: x", b"host\t: y"),
    }.items():
        yield name, b"\r\n".join([b"GET /length HTTP/1.1", *lines]) + b"\r\n\r\n", Refused()
    for host in (b"", b"x:80", b"x.example:8080", b"[::1]:80", b"10.0.0.1", b"b1.b.example"):
        yield f"host {host!r}", b"GET /length HTTP/1.1\r\nhost: " + host + b"\r\n\r\n", Taken()


def _chunks() -> Iterator[Vector]:
    chunked = b"transfer-encoding: chunked"
    for name, body, size in (
        ("one chunk", CHUNKED, 5),
        ("upper-case size", b"A\r\n" + b"x" * 10 + b"\r\n0\r\n\r\n", 10),
        ("lower-case size", b"a\r\n" + b"x" * 10 + b"\r\n0\r\n\r\n", 10),
        ("a size with zeros", b"0005\r\nhello\r\n0\r\n\r\n", 5),
        ("many zeros at the end", b"5\r\nhello\r\n0000\r\n\r\n", 5),
        ("an extension", b"5;a=b\r\nhello\r\n0\r\n\r\n", 5),
        ("a quoted extension", b'5;a="b c"\r\nhello\r\n0\r\n\r\n', 5),
        ("an extension at the end", b"5\r\nhello\r\n0;a=b\r\n\r\n", 5),
        ("a very long extension", b"5;" + b"a" * 200_000 + b"\r\nhello\r\n0\r\n\r\n", 5),
        ("a trailer", b"5\r\nhello\r\n0\r\na: b\r\n\r\n", 5),
        ("two trailers", b"5\r\nhello\r\n0\r\na: b\r\nc: d\r\n\r\n", 5),
        ("a credential behind", b"0\r\nauthorization: Bearer x\r\nsvc-basin: x\r\n\r\n", 0),
        ("an end of the connection behind", b"0\r\nconnection: close\r\n\r\n", 0),
        ("a coding behind", b"0\r\ncontent-encoding: gzip\r\n\r\n", 0),
        ("a request in a chunk", b"%x\r\n%b\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN), len(HIDDEN)),
        ("nothing", b"0\r\n\r\n", 0),
    ):
        yield f"chunks: {name}", post(chunked, body=body), Taken(size)
    for name, body in {
        "a negative size": b"-5\r\nhello\r\n0\r\n\r\n",
        "a size with a sign": b"+5\r\nhello\r\n0\r\n\r\n",
        "a size with 0x": b"0x5\r\nhello\r\n0\r\n\r\n",
        "a size that is no number": b"g\r\nhello\r\n0\r\n\r\n",
        "no size": b"\r\nhello\r\n0\r\n\r\n",
        "a size with an underscore": b"0_5\r\nhello\r\n0\r\n\r\n",
        "a blank before the size": b" 5\r\nhello\r\n0\r\n\r\n",
        "a blank after the size": b"5 \r\nhello\r\n0\r\n\r\n",
        "a tab after the size": b"5\t\r\nhello\r\n0\r\n\r\n",
        "a nul after the size": b"5\0\r\nhello\r\n0\r\n\r\n",
        "a comma after the size": b"5,\r\nhello\r\n0\r\n\r\n",
        "a size beyond 64 bits": b"10000000000000005\r\nhello\r\n0\r\n\r\n",
        "a size of many digits": b"f" * 40 + b"\r\nhello\r\n0\r\n\r\n",
        "lf after the size": b"5\nhello\r\n0\r\n\r\n",
        "cr after the size": b"5\rhello\r\n0\r\n\r\n",
        "cr cr lf after the size": b"5\r\r\nhello\r\n0\r\n\r\n",
        "lf after an extension": b"5;a\nhello\r\n0\r\n\r\n",
        "lf in an extension": b"5;a\nb\r\nhello\r\n0\r\n\r\n",
        "cr in an extension": b"5;a\rb\r\nhello\r\n0\r\n\r\n",
        "nul in an extension": b"5;a\0\r\nhello\r\n0\r\n\r\n",
        "lf in a quoted extension": b'5;a="\n"\r\nhello\r\n0\r\n\r\n',
        "lf after the data": b"5\r\nhello\n0\r\n\r\n",
        "cr after the data": b"5\r\nhello\r0\r\n\r\n",
        "nothing after the data": b"5\r\nhello0\r\n\r\n",
        "more data than its size": b"5\r\nhello!\r\n0\r\n\r\n",
        "two bytes more than its size": b"3\r\nhello\r\n0\r\n\r\n",
        "a request behind too much data": b"5\r\nhelloXX0\r\n\r\n" + HIDDEN,
        "lf at the end": b"5\r\nhello\r\n0\n\n" + HIDDEN,
        "lf after the last size": b"5\r\nhello\r\n0\n\r\n" + HIDDEN,
        "lf as the last line": b"5\r\nhello\r\n0\r\n\n" + HIDDEN,
        "a folded trailer": b"5\r\nhello\r\n0\r\na: b\r\n c\r\n\r\n",
        "a trailer with a blank in its name": b"5\r\nhello\r\n0\r\na : b\r\n\r\n",
        "a trailer without a colon": b"5\r\nhello\r\n0\r\nGET /smuggled HTTP/1.1\r\n\r\n",
        "a trailer with a length": b"5\r\nhello\r\n0\r\ncontent-length: 99\r\n\r\n",
        "a trailer with te": b"5\r\nhello\r\n0\r\ntransfer-encoding: x\r\n\r\n",
        "lf after a trailer": b"5\r\nhello\r\n0\r\na: b\n\r\n",
        "nul in a trailer": b"5\r\nhello\r\n0\r\na: \0\r\n\r\n",
        "a trailer without an end": b"0\r\n" + b"a: b\r\n" * 8000,
    }.items():
        yield f"chunks: {name}", post(chunked, body=body), Broken()


def _twice() -> Iterator[Vector]:
    for name, one, two in (
        *((b"authorization", b"Bearer a", b"Bearer b"), (b"authorization", b"a", b"a")),
        *((b"content-type", b"application/json", b"text/plain"), (b"content-type", b"a", b"a")),
        *((b"expect", b"100-continue", b"100-continue"), (b"last-event-id", b"1,1,1", b"2,2,2")),
    ):
        lines = [name + b": " + one, name.title() + b": " + two]
        yield f"{name!r} twice: {one!r} {two!r}", post(*lines), Refused()
    for name in (b"accept", b"x-any", b"cookie", b"accept-encoding"):
        yield f"{name!r} twice", post(name + b": a", name + b": b"), Taken()


def _versions() -> Iterator[Vector]:
    """HTTP/1.0 knows neither chunks nor a connection that stays."""
    old = b"HTTP/1.0"
    chunked = b"transfer-encoding: chunked"
    yield "1.0 with te", post(chunked, body=CHUNKED, version=old), Refused()
    both = post(chunked, b"content-length: 6", body=HIDING, version=old)
    yield "1.0 with te and cl", both, Refused()
    yield "1.0", post(version=old), TakenAndClosed()
    with_length = post(b"content-length: 5", body=b"hello", version=old)
    yield "1.0 with cl", with_length, TakenAndClosed()
    yield "1.0 without a host", b"GET /length HTTP/1.0\r\n\r\n", TakenAndClosed()
    kept = post(b"connection: keep-alive", b"content-length: 5", body=b"hello", version=old)
    yield "1.0 kept alive", kept, Taken(5)
    yield "1.0 with two hosts", post(b"host: y", version=old), Refused()
    yield "closed", post(b"connection: close"), TakenAndClosed()
    yield "closed among others", post(b"connection: x, Close"), TakenAndClosed()
    named = post(b"connection: content-length", b"content-length: 5", body=b"hello")
    yield "a length named by connection", named, Taken(5)


def _methods() -> Iterator[Vector]:
    """A body belongs to its request, whatever the method."""
    for method in (b"GET", b"DELETE", b"OPTIONS", b"PUT", b"PATCH", b"TRACE"):
        head = method + b" /length HTTP/1.1\r\nhost: x\r\n"
        length = head + b"content-length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN
        yield f"{method!r} with a length", length, Taken(len(HIDDEN))
        yield (
            f"{method!r} with chunks",
            head + b"transfer-encoding: chunked\r\n\r\n" + CHUNKED,
            Taken(5),
        )
    tunnel = b"CONNECT x:80 HTTP/1.1\r\nhost: x:80\r\n\r\n"
    yield "a tunnel", tunnel + HIDDEN, Refused()
    for protocol in (b"websocket", b"h2c", b"TLS/1.0"):
        lines = [b"connection: upgrade", b"upgrade: " + protocol]
        yield f"an upgrade to {protocol!r}", post(*lines), UpgradeDeclined()
        with_body = post(*lines, b"content-length: %d" % len(HIDDEN), body=HIDDEN)
        yield f"an upgrade to {protocol!r} with a body", with_body, UpgradeDeclined()
        with_chunks = post(*lines, b"transfer-encoding: chunked", body=CHUNKED)
        yield f"an upgrade to {protocol!r} with chunks", with_chunks, UpgradeDeclined()
    settings = [
        b"connection: Upgrade, HTTP2-Settings",
        b"upgrade: h2c",
        b"http2-settings: AAMAAABk",
    ]
    yield "an upgrade with settings", post(*settings), UpgradeDeclined()
