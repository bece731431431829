"""The mistakes that the model can be made to make, each of which a run of it notices."""

from __future__ import annotations

from enum import Enum


class Mistake(Enum):
    """A rule of the model that is left out. Each value says what is done instead."""

    NO_CAP = "what is committed behind a seal counts"
    STANDS_WITHOUT_SEAL = "a replica stands for election without the seal it begins with"
    DAMAGED_AS_FRESH = "a damaged replica enters the next configuration as a whole one"
    OLD_ANSWERS = "a replica of the next configuration still answers for the one before"
    ANY_CONFIGURATION = "a message is taken whatever configuration it is of"
    START_UNCOMMITTED = "the leader begins the next configuration with a seal not committed"
    FEED_UNCOMMITTED = "a learner is fed entries that are not committed"
    WIPED_AS_WHOLE = "an empty disk under the old replica id is taken for a whole replica"
    IN_PLACE = "a lost disk is replaced under the same replica id, as a damaged replica"
    NO_FENCE = "of two disks with one replica id both are heard"
    PROPOSE_AFTER_SEAL = "a leader proposes while a seal stands in its log"
    KEEP_TAIL = "what stands above the seal stays in the log"
    READ_AFTER_SEAL = "a leader starts reads while a seal stands in its log"
    DESTROY_EARLY = "who is in the next configuration no more destroys its copy at the seal"


Mistakes = frozenset[Mistake]
NONE: Mistakes = frozenset()
