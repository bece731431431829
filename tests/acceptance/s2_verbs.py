"""What each verb of the `s2` command has to bring about, seen beside the command.

Every check makes what it needs, so that none depends on another. A verb that is refused with 501 is
not served yet; whatever else is not as it should be is an AssertionError.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.acceptance.s2_command import S2Command

Run = Callable[[S2Command], str | None]


@dataclass(frozen=True, slots=True)
class Check:
    """`verb` as the command lists it, what of it is looked at, and how."""

    verb: str
    what: str
    run: Run


CHECKS: Final[list[Check]] = []

LOCAL_VERBS: Final = ("login", "logout", "config", "lite", "update", "help")
"""They ask nothing of the service."""


def check(verb: str, what: str) -> Callable[[Run], Run]:
    def add(run: Run) -> Run:
        CHECKS.append(Check(verb, what, run))
        return run

    return add


def uri(basin: str, stream: str = "") -> str:
    return f"s2://{basin}/{stream}" if stream else f"s2://{basin}"


def has(config: Any, **expected: Any) -> None:
    """`config` has these members; `a__b` is the member b of the member a."""
    for path, value in expected.items():
        found = config
        for name in path.split("__"):
            found = None if found is None else found.get(name)
        assert found == value, f"{path} is {found!r}, not {value!r}"


# -- basins


@check("create-basin", "its configuration is kept; the same name again is refused")
def create_basin(s2: S2Command) -> None:
    name = s2.new_name("acceptance-made")
    options = ["--retention-policy", "1d", "--timestamping-mode", "client-require"]
    s2.ok("create-basin", name, *options, "--create-stream-on-append")
    config = s2.api("GET", f"/v1/basins/{name}")
    has(config, create_stream_on_append=True, create_stream_on_read=False)
    has(config["default_stream_config"], retention_policy={"age": 86400})
    has(config["default_stream_config"], timestamping__mode="client-require")
    s2.refused("create-basin", name, says="resource_already_exists")


@check("create-basin", "auto-creation on append and on read is done as configured")
def create_streams_by_use(s2: S2Command) -> None:
    name = s2.new_name("acceptance-auto")
    s2.ok("create-basin", name, "--create-stream-on-append", "--create-stream-on-read")
    s2.ok("append", uri(name, "written"), stdin="first\n")
    assert s2.bodies(name, "written") == ["first"]
    s2.call("read", uri(name, "looked-for"), "--seq-num", "0", "--count", "1")
    listed = s2.api("GET", "/v1/streams", basin=name)["streams"]
    assert [stream["name"] for stream in listed] == ["looked-for", "written"]


@check("list-basins", "prefix, start after, limit; a page; in order; with the location")
def list_basins(s2: S2Command) -> None:
    names = [s2.new_basin() for _ in range(3)]
    arguments = ("list-basins", "--prefix", "acceptance-basin-")
    everything = [line.split(" ")[0] for line in s2.ok(*arguments).lines]
    assert everything == sorted(everything) and set(names) <= set(everything)
    lines = [f"{name} (local)" for name in names]
    before = names[0]
    assert s2.ok(*arguments, "--start-after", before, "--limit", "2").lines == lines[1:]
    page = (*arguments, "--start-after", before, "--limit", "1", "--no-auto-paginate")
    assert s2.ok(*page).lines == lines[1:2]


@check("ls", "without a basin the basins, with one its streams, with a prefix those")
def ls(s2: S2Command) -> None:
    basin = s2.new_basin()
    for name in ("a/1", "a/2", "b"):
        s2.api("POST", "/v1/streams", {"stream": name}, basin)
    assert f"{basin} (local)" in s2.ok("ls").lines
    found = [line.split(" ")[0] for line in s2.ok("ls", uri(basin)).lines]
    assert found == [uri(basin, name) for name in ("a/1", "a/2", "b")]
    found = [line.split(" ")[0] for line in s2.ok("ls", uri(basin, "a/")).lines]
    assert found == [uri(basin, name) for name in ("a/1", "a/2")]


@check("get-basin-config", "shows what was set")
def get_basin_config(s2: S2Command) -> None:
    basin = s2.new_basin(
        create_stream_on_append=True, default_stream_config={"retention_policy": {"age": 7200}}
    )
    shown = s2.ok("get-basin-config", basin).out
    assert re.search(r"create_stream_on_append\W+true", shown), shown
    assert "2h" in shown, shown
    s2.refused("get-basin-config", "acceptance-missing", says="basin_not_found")


@check("reconfigure-basin", "changes what is named and leaves the rest")
def reconfigure_basin(s2: S2Command) -> None:
    basin = s2.new_basin(
        create_stream_on_append=True, default_stream_config={"timestamping": {"mode": "arrival"}}
    )
    options = ["--create-stream-on-read", "true", "--retention-policy", "2h"]
    s2.ok("reconfigure-basin", basin, *options)
    config = s2.api("GET", f"/v1/basins/{basin}")
    has(config, create_stream_on_append=True, create_stream_on_read=True)
    has(config, default_stream_config__retention_policy={"age": 7200})
    has(config, default_stream_config__timestamping__mode="arrival")


@check("delete-basin", "is marked or gone at once, and its streams take no append")
def delete_basin(s2: S2Command) -> None:
    basin = s2.new_basin()
    stream = s2.new_stream(basin)
    s2.ok("delete-basin", basin)
    listed = s2.ok("list-basins", "--prefix", basin).lines
    assert listed in ([], [f"{basin} (local) [deleting]"]), listed
    assert s2.call("append", uri(basin, stream), stdin="late\n").status != 0


# -- streams


@check("create-stream", "its configuration is kept; the same name again is refused")
def create_stream(s2: S2Command) -> None:
    basin = s2.new_basin()
    name = "a folder/ünïcode"
    options = ["--storage-class", "standard", "--retention-policy", "infinite"]
    options += ["--timestamping-mode", "client-prefer", "--timestamping-uncapped", "true"]
    s2.ok("create-stream", uri(basin, name), *options, "--delete-on-empty-min-age", "1h")
    config = s2.api("GET", "/v1/streams/a%20folder%2F%C3%BCn%C3%AFcode", basin=basin)
    has(config, storage_class="standard", retention_policy={"infinite": {}})
    has(config, timestamping__mode="client-prefer", timestamping__uncapped=True)
    has(config, delete_on_empty__min_age_secs=3600)
    s2.refused("create-stream", uri(basin, name), says="resource_already_exists")


@check("list-streams", "prefix, start after, limit; a page; in order")
def list_streams(s2: S2Command) -> None:
    basin = s2.new_basin()
    for name in ("x/1", "x/2", "x/3", "y"):
        s2.api("POST", "/v1/streams", {"stream": name}, basin)
    listing = ("list-streams", uri(basin))
    every = [uri(basin, name) for name in ("x/1", "x/2", "x/3", "y")]
    assert s2.ok(*listing).lines == every
    assert s2.ok(*listing, "--prefix", "x/", "--start-after", "x/1").lines == every[1:3]
    assert s2.ok(*listing, "--limit", "2").lines == every[:2]
    assert s2.ok(*listing, "--limit", "3", "--no-auto-paginate").lines == every[:3]


@check("get-stream-config", "shows what was set, and S2's defaults")
def get_stream_config(s2: S2Command) -> None:
    basin = s2.new_basin()
    stream = s2.new_stream(basin, timestamping={"mode": "arrival"})
    shown = s2.ok("get-stream-config", uri(basin, stream)).out
    for word in ("express", "7days", "arrival"):
        assert word in shown, shown
    s2.refused("get-stream-config", uri(basin, "missing"), says="stream_not_found")


@check("reconfigure-stream", "changes what is named and leaves the rest")
def reconfigure_stream(s2: S2Command) -> None:
    basin = s2.new_basin()
    stream = s2.new_stream(basin, timestamping={"mode": "arrival", "uncapped": True})
    s2.ok("reconfigure-stream", uri(basin, stream), "--retention-policy", "3h")
    config = s2.api("GET", f"/v1/streams/{stream}", basin=basin)
    has(config, retention_policy={"age": 10800}, timestamping__mode="arrival")
    has(config, timestamping__uncapped=True)


@check("delete-stream", "is marked or gone at once, and takes no append")
def delete_stream(s2: S2Command) -> None:
    basin = s2.new_basin()
    stream = s2.new_stream(basin, ["kept no longer"])
    s2.ok("delete-stream", uri(basin, stream))
    listed = s2.ok("list-streams", uri(basin)).lines
    assert listed in ([], [f"{uri(basin, stream)} [deleting]"]), listed
    s2.refused("append", uri(basin, stream), stdin="late\n", says="stream_")


@check("apply", "a dry run changes nothing; then created, unchanged, updated")
def apply(s2: S2Command) -> None:
    basin = s2.new_name("acceptance-apply")
    config: dict[str, Any] = {"retention_policy": "1day"}
    spec = {"basins": [{"name": basin, "streams": [{"name": "events", "config": config}]}]}
    path = s2.home / f"{basin}.json"

    def applied(*options: str) -> str:
        path.write_text(json.dumps(spec))
        done = s2.ok("apply", "--file", str(path), *options)
        return done.out + done.said

    assert f"+ basin {basin}" in applied("--dry-run")
    assert s2.ok("list-basins", "--prefix", basin).lines == []
    said = applied()
    assert f"basin {basin} (created)" in said and f"stream {basin}/events (created)" in said, said
    said = applied()
    assert said.count("(config unchanged)") == 2, said
    config["retention_policy"] = "2days"
    said = applied()
    assert f"stream {basin}/events (config updated)" in said, said
    now = s2.api("GET", "/v1/streams/events", basin=basin)
    has(now, retention_policy={"age": 172_800})


@check("diff", "two basins, two streams, a stream and its basin's defaults")
def diff(s2: S2Command) -> None:
    left = s2.new_basin(default_stream_config={"retention_policy": {"infinite": {}}})
    right = s2.new_basin(default_stream_config={"retention_policy": {"age": 604_800}})
    shown = s2.ok("diff", uri(left), uri(right)).out
    assert "default_stream_config.retention_policy\n- infinite\n+ 7d" in shown, shown
    assert "No differences" in s2.ok("diff", uri(left), uri(left), "--exit-code").out
    stream = s2.new_stream(left, retention_policy={"age": 86_400})
    other = s2.new_stream(left, retention_policy={"age": 86_400})
    assert "No differences" in s2.ok("diff", uri(left, stream), uri(left, other)).out
    done = s2.call("diff", uri(left), uri(left, stream), "--exit-code")
    assert done.status == 1 and "retention_policy\n- infinite\n+ 1d" in done.out, done


# -- records


@check("append", "lines of text, from standard input, with an acknowledgement")
def append_text(s2: S2Command) -> None:
    basin = s2.new_basin()
    stream = s2.new_stream(basin)
    done = s2.ok("append", uri(basin, stream), stdin="one\ntwo\n\nünï\n")
    assert "[APPENDED]" in done.said and "tail: 4 @" in done.said, done.said
    assert s2.bodies(basin, stream) == ["one", "two", "", "ünï"]


@check("append", "json with headers and timestamps; json-base64 with any bytes")
def append_json(s2: S2Command) -> None:
    basin = s2.new_basin()
    stream = s2.new_stream(basin)
    line = {"timestamp": 1_700_000_000_000, "headers": [["k", "v"], ["k", ""]], "body": "text"}
    s2.ok("append", uri(basin, stream), "--format", "json", stdin=json.dumps(line) + "\n")
    body = base64.b64encode(b"\xff\x00\xfe").decode()
    line = {"headers": [["aw==", ""]], "body": body}
    s2.ok("append", uri(basin, stream), "--format", "json-base64", stdin=json.dumps(line) + "\n")
    first, second = s2.records(basin, stream)
    assert first == {
        "seq_num": 0,
        "timestamp": 1_700_000_000_000,
        "headers": [["k", "v"], ["k", ""]],
        "body": "text",
    }
    assert second["headers"] == [["k", ""]]
    shown = s2.ok("read", uri(basin, stream), "-s", "1", "-n", "1", "--format", "json-base64")
    assert json.loads(shown.out)["body"] == body


@check("append", "a file of 5,000 lines: every record once, in order, in many batches")
def append_file(s2: S2Command) -> None:
    basin = s2.new_basin()
    stream = s2.new_stream(basin)
    lines = [f"{number} {'x' * (number % 997)}" for number in range(5000)]
    path = s2.home / "lines.txt"
    path.write_text("\n".join(lines) + "\n")
    done = s2.ok("append", uri(basin, stream), "--input", str(path))
    assert done.said.count("[APPENDED]") >= 5, done.said[:200]
    assert s2.bodies(basin, stream) == lines
    target = s2.home / "read.txt"
    s2.ok("read", uri(basin, stream), "-s", "0", "-n", "5000", "--output", str(target))
    assert target.read_text().splitlines() == lines


@check("append", "conditions: a stale match-seq-num and a wrong fencing token are refused")
def append_conditions(s2: S2Command) -> None:
    basin = s2.new_basin()
    stream = s2.new_stream(basin, ["zero"])
    to = ("append", uri(basin, stream))
    s2.refused(*to, "--match-seq-num", "0", stdin="x\n", says="sequence number mismatch")
    s2.refused(*to, "--fencing-token", "x", stdin="x\n", says="fencing token mismatch")
    s2.ok(*to, "--match-seq-num", "1", "--fencing-token", "", stdin="one\n")
    assert s2.bodies(basin, stream) == ["zero", "one"]
    s2.refused("append", uri(basin, "missing"), stdin="x\n", says="stream_not_found")


@check("append", "creates a stream with the options given; others come from the basin")
def append_with_stream_config(s2: S2Command) -> None:
    basin = s2.new_basin(
        create_stream_on_append=True, default_stream_config={"timestamping": {"mode": "arrival"}}
    )
    s2.ok("append", uri(basin, "made"), "--retention-policy", "5h", stdin="first\n")
    assert s2.bodies(basin, "made") == ["first"]
    config = s2.api("GET", "/v1/streams/made", basin=basin)
    has(config, retention_policy={"age": 18_000}, timestamping__mode="arrival")


@check("append", "encrypted: read with the key, refused without it")
def encryption(s2: S2Command) -> None:
    ciphers = ("aegis-256", "aes-256-gcm")
    for number, cipher in enumerate(ciphers):
        key = base64.b64encode(bytes([number + 1]) * 32).decode()
        wrong = base64.b64encode(bytes([number + 9]) * 32).decode()
        basin = s2.new_name("acceptance-secret")
        s2.ok("create-basin", basin, "--stream-cipher", cipher)
        s2.ok("create-stream", uri(basin, "s"))
        s2.ok("append", uri(basin, "s"), "-k", key, stdin="secret\n")
        read = ("read", uri(basin, "s"), "-s", "0", "-n", "1")
        assert s2.ok(*read, "-k", key).lines == ["secret"]
        s2.refused(*read, "-k", wrong, says="decryption_failed")
        assert "secret" not in s2.call(*read).out
        assert s2.call("append", uri(basin, "s"), stdin="plain\n").status != 0


@check("append", "and read, compressed by gzip and by zstd")
def compression(s2: S2Command) -> None:
    basin = s2.new_basin()
    lines = ["worth compressing " * 50] * 40
    for coding in ("gzip", "zstd"):
        stream = s2.new_stream(basin)
        environment = {"S2_COMPRESSION": coding}
        given = "\n".join(lines) + "\n"
        s2.ok("append", uri(basin, stream), stdin=given, environment=environment)
        read = ("read", uri(basin, stream), "-s", "0", "-n", "40")
        assert s2.ok(*read, environment=environment).lines == lines
        assert s2.bodies(basin, stream) == lines


@check("read", "from a number, a time, the tail, an age; by count, bytes, until; clamped")
def read(s2: S2Command) -> None:
    basin = s2.new_basin()
    stream = s2.new_stream(basin, [f"r{number}" for number in range(10)])
    records = s2.records(basin, stream)
    moment = records[0]["timestamp"]

    def lines(*options: str) -> list[str]:
        return s2.ok("read", uri(basin, stream), *options).lines

    assert lines("--seq-num", "3", "--count", "2") == ["r3", "r4"]
    assert lines("--timestamp", str(moment), "--count", "1") == ["r0"]
    assert lines("--tail-offset", "2", "--count", "9") == ["r8", "r9"]
    assert lines("--ago", "1h", "--count", "1") == ["r0"]
    assert lines("--seq-num", "0", "--bytes", "20") == ["r0", "r1"]
    late = records[-1]["timestamp"] + 1
    assert lines("--seq-num", "8", "--until", str(late)) == ["r8", "r9"]
    past = ("read", uri(basin, stream), "--seq-num", "11", "--count", "1")
    s2.refused(*past, says="unwritten position")
    done = s2.ok("read", uri(basin, stream), "-s", "9", "-n", "1", "--format", "json")
    assert json.loads(done.out) == records[9]


@check("read", "without a limit: what is there, then what comes")
def read_follows(s2: S2Command) -> None:
    basin = s2.new_basin()
    stream = s2.new_stream(basin, ["there"])
    with s2.following("read", uri(basin, stream), "--seq-num", "0") as following:
        following.wait_lines(["there"])
        for number in range(3):
            s2.ok("append", uri(basin, stream), stdin=f"new {number}\n")
        following.wait_lines(["there", "new 0", "new 1", "new 2"])
    with s2.following("read", uri(basin, stream), "--seq-num", "99", "--clamp") as following:
        # which of them it finds is a matter of when it began
        for number in range(50):
            s2.ok("append", uri(basin, stream), stdin=f"late {number}\n")
            if following.lines:
                break
        assert following.lines and following.lines[0].startswith("late "), following.lines


@check("tail", "the last records, and then what comes")
def tail(s2: S2Command) -> None:
    basin = s2.new_basin()
    stream = s2.new_stream(basin, [f"r{number}" for number in range(15)])
    at = ("tail", uri(basin, stream))
    assert s2.ok(*at).lines == [f"r{number}" for number in range(5, 15)]
    assert s2.ok(*at, "-n", "2").lines == ["r13", "r14"]
    assert s2.ok(*at, "-n", "99").lines == [f"r{number}" for number in range(15)]
    with s2.following(*at, "-n", "1", "--follow") as following:
        following.wait_lines(["r14"])
        s2.ok("append", uri(basin, stream), stdin="r15\n")
        following.wait_lines(["r14", "r15"])


@check("check-tail", "the next number and the last time")
def check_tail(s2: S2Command) -> None:
    basin = s2.new_basin()
    stream = s2.new_stream(basin)
    assert s2.ok("check-tail", uri(basin, stream)).lines == ["0 @ 0"]
    s2.ok("append", uri(basin, stream), stdin="a\nb\n")
    last = s2.records(basin, stream)[-1]
    assert s2.ok("check-tail", uri(basin, stream)).lines == [f"2 @ {last['timestamp']}"]
    s2.refused("check-tail", uri(basin, "missing"), says="stream_not_found")


@check("fence", "is a record, changes the token, and is itself fenced")
def fence(s2: S2Command) -> None:
    basin = s2.new_basin()
    stream = s2.new_stream(basin)
    said = s2.ok("fence", uri(basin, stream), "owner-1").said
    assert 'new fencing token "owner-1" // tail: 1 @' in said, said
    wrong = ("fence", uri(basin, stream), "owner-2", "--fencing-token", "nobody")
    s2.refused(*wrong, says="fencing token mismatch")
    s2.ok("fence", uri(basin, stream), "owner-2", "-f", "owner-1", "-m", "1")
    to = ("append", uri(basin, stream), "--fencing-token")
    s2.refused(*to, "owner-1", stdin="x\n", says="fencing token mismatch")
    s2.ok(*to, "owner-2", stdin="mine\n")
    commands = [record.get("headers") for record in s2.records(basin, stream)]
    assert commands == [[["", "fence"]], [["", "fence"]], None]
    s2.ok("fence", uri(basin, stream), "")
    s2.ok(*to, "", stdin="anybody's\n")


@check("trim", "is a record, hides what is before its point, under conditions")
def trim(s2: S2Command) -> None:
    basin = s2.new_basin()
    stream = s2.new_stream(basin, ["r0", "r1", "r2"])
    wrong = ("trim", uri(basin, stream), "2", "--match-seq-num", "9")
    s2.refused(*wrong, says="sequence number mismatch")
    said = s2.ok("trim", uri(basin, stream), "2", "--match-seq-num", "3").said
    assert "trim to 2 // tail: 4 @" in said, said
    done = s2.ok("read", uri(basin, stream), "-s", "0", "-n", "9", "--format", "json")
    shown = [json.loads(line) for line in done.lines]
    assert [record["seq_num"] for record in shown] == [2, 3], shown
    assert shown[0]["body"] == "r2" and shown[1]["headers"] == [["", "trim"]]


@check("bench", "5 s at 1 MiB/s: written, read live and read again are the same records")
def bench(s2: S2Command) -> str:
    basin = s2.new_basin()
    options = ["--duration", "5s", "--target-mibps", "1", "--catchup-delay", "1s"]
    said = s2.ok("bench", basin, *options).said
    found = re.findall(r"(Write|Read|Catchup): ([0-9.]+) MiB/s, .*?(\d+) records in", said)
    counts = {name: int(records) for name, _, records in found}
    assert counts.keys() == {"Write", "Read", "Catchup"}, said[-300:]
    assert len(set(counts.values())) == 1 and counts["Write"] > 0, counts
    listed = s2.ok("list-streams", uri(basin)).lines
    assert all(line.endswith("[deleting]") for line in listed), listed
    rates = ", ".join(f"{name.lower()} {rate} MiB/s" for name, rate, _ in found)
    return f"{counts['Write']} records; {rates}"


# -- the account


@check("auth", "status: the endpoint answers")
def auth_status(s2: S2Command) -> None:
    assert "Connected" in s2.ok("auth", "status").said


@check("issue-access-token", "a secret is given, and the token is listed")
def issue_access_token(s2: S2Command) -> None:
    name = s2.new_name("token")
    secret = s2.ok("issue-access-token", name, "--op-group-perms", "account=r").out.strip()
    assert secret, "no secret"
    assert name in s2.ok("list-access-tokens", "--prefix", name).out


@check("list-access-tokens", "at least one is listed")
def list_access_tokens(s2: S2Command) -> None:
    assert len(s2.ok("list-access-tokens", "--limit", "1").lines) >= 1


@check("revoke-access-token", "it is listed no more")
def revoke_access_token(s2: S2Command) -> None:
    name = s2.new_name("token")
    s2.ok("issue-access-token", name, "--op-group-perms", "account=r")
    s2.ok("revoke-access-token", name)
    assert name not in s2.ok("list-access-tokens", "--prefix", name).out


@check("list-locations", "the default is one of them")
def list_locations(s2: S2Command) -> None:
    default = s2.ok("get-default-location").lines[0]
    assert default in s2.ok("list-locations").lines


@check("get-default-location", "there is one")
def get_default_location(s2: S2Command) -> None:
    assert s2.ok("get-default-location").lines[0].split(" ")[0]


@check("set-default-location", "is then the default")
def set_default_location(s2: S2Command) -> None:
    name = s2.ok("list-locations").lines[0].split(" ")[0]
    s2.ok("set-default-location", name)
    assert s2.ok("get-default-location").lines[0].split(" ")[0] == name


TIMES: Final = ("--start-ago", "1h", "--end-ago", "0s")


@check("get-account-metrics", "a basin with a stream is active")
def get_account_metrics(s2: S2Command) -> None:
    basin = s2.new_basin()
    s2.new_stream(basin, ["counted"])
    assert basin in s2.ok("get-account-metrics", "active-basins", *TIMES).out
    assert "create-basin" in s2.ok("get-account-metrics", "account-ops", *TIMES).out


@check("get-basin-metrics", "storage, operations and throughput")
def get_basin_metrics(s2: S2Command) -> None:
    basin = s2.new_basin()
    s2.new_stream(basin, ["counted"])
    sets = ("storage", "append-ops", "read-ops", "read-throughput", "append-throughput")
    for name in (*sets, "basin-ops"):
        s2.ok("get-basin-metrics", basin, name, *TIMES)
    assert "standard" in s2.ok("get-basin-metrics", basin, "append-throughput", *TIMES).out


@check("get-stream-metrics", "storage")
def get_stream_metrics(s2: S2Command) -> None:
    basin = s2.new_basin()
    stream = s2.new_stream(basin, ["counted"])
    shown = s2.ok("get-stream-metrics", uri(basin, stream), "storage", *TIMES).out
    assert "storage" in shown


def uncovered(help_text: str) -> list[str]:
    """Verbs that the command lists and nobody checks here."""
    section = help_text.split("Commands:", 1)[1].split("Options:", 1)[0]
    listed = re.findall(r"^  ([a-z][a-z-]+)(?:  |$)", section, re.MULTILINE)
    known = {one.verb for one in CHECKS} | set(LOCAL_VERBS)
    return [verb for verb in listed if verb not in known]
