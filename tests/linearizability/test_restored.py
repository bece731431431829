"""The judge of backups in a history finds each thing that a restore may not do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.linearizability.history import NEVER, Append, CheckTail, Outcome, Read, SeenRecord
from tests.linearizability.restored import Backup, Life, judge


def rows(*bodies: str) -> tuple[SeenRecord, ...]:
    return tuple(SeenRecord(number, 1000 + number, body) for number, body in enumerate(bodies))


def done(inv: int, start: int, *bodies: str) -> Append:
    end = start + len(bodies)
    return Append(1, inv, inv + 1, bodies, Outcome.OK, start=start, end=end, tail=end)


UNKNOWN = Append(2, 50, NEVER, ("u",), Outcome.UNKNOWN)
FIRST = Life(
    (
        done(1, 0, "a", "b"),
        CheckTail(3, 3, 4, 2),
        done(20, 2, "c", "d"),
        done(40, 4, "e"),
        UNKNOWN,
        Read(3, 60, 61, 0, rows("a", "b", "c", "d", "e", "u"), tail=6),
    ),
    rows("a", "b", "c", "d", "e", "u"),
)
"""The backup was taken while `c` and `d` were appended: between 10 and 30."""
BACKUP = Backup(10, 30, rows("a", "b", "c", "d"))
SECOND = Life(
    (Read(1, 1, 2, 0, rows("a", "b", "c", "d"), tail=4), done(3, 4, "x")),
    rows("a", "b", "c", "d", "x"),
)


def shorter(kept: int, *bodies: str) -> Life:
    """A second life behind a restore of so many records, with others at its end."""
    first = ("a", "b", "c", "d", "e", "u")[:kept]
    return Life(
        (
            Read(1, 1, 2, 0, rows(*first), tail=kept),
            done(3, kept, "x"),
        ),
        rows(*first, "x", *bodies),
    )


def test_a_restore_of_any_moment_of_the_backup_is_right() -> None:
    """With what was under way at the time, and without it."""
    assert judge(FIRST, BACKUP, SECOND) == []
    assert judge(FIRST, replace(BACKUP, kept=rows("a", "b")), shorter(2)) == []


def test_an_append_of_unknown_outcome_may_be_in_it() -> None:
    """One that was begun before the backup ended; not one that was begun later."""
    kept = rows("a", "b", "c", "d", "e", "u")
    later = Backup(10, 55, kept)
    assert judge(FIRST, later, shorter(6)) == []
    found = judge(FIRST, replace(later, ended=45), shorter(6))
    assert [each.partition(":")[0] for each in found] == [
        "a batch was restored that was asked for after the backup"
    ]


@pytest.mark.parametrize(
    ("backup", "second", "says"),
    [
        (
            replace(BACKUP, began=25, kept=rows("a", "b")),
            shorter(2),
            "a batch was acknowledged before the backup and is not in it",
        ),
        (
            replace(BACKUP, kept=rows("a", "b", "c")),
            shorter(3),
            "a batch was restored by half",
        ),
        (
            replace(BACKUP, kept=rows("a", "b", "c", "d", "e")),
            shorter(5),
            "a batch was restored that was asked for after the backup",
        ),
        (
            replace(BACKUP, kept=rows("a", "b", "d", "c")),
            Life((), rows("a", "b", "d", "c")),
            "what was restored is no prefix: it differs at 2",
        ),
        (BACKUP, Life((), rows("a", "b", "c")), "the second life does not begin with"),
        (BACKUP, shorter(4, "e"), "record 5 of the first life came back"),
        (
            replace(BACKUP, kept=()),
            Life((), ()),
            "more was seen before the backup than it has",
        ),
        (
            BACKUP,
            Life((replace(SECOND.operations[0], tail=6), done(3, 4, "x")), SECOND.final),
            "both lives: ",
        ),
        (
            BACKUP,
            Life(SECOND.operations, rows("a", "b", "c", "d")),
            "both lives: ",
        ),
    ],
)
def test_what_a_restore_may_not_do_is_named(backup: Backup, second: Life, says: str) -> None:
    """Each of these alone is found, whatever else follows from it."""
    found = judge(FIRST, backup, second)
    assert any(each.startswith(says) for each in found), found


def test_the_first_life_is_judged_too() -> None:
    """By the same checker, over all that there was at its end."""
    lost = Life(FIRST.operations, rows("a", "b", "c", "d"))
    assert any(each.startswith("first life: ") for each in judge(lost, BACKUP, SECOND))
