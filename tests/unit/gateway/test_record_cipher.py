"""Ciphers against published vectors, the stored form of a record, and keys that stay hidden."""

from __future__ import annotations

import copy
import traceback
from typing import Final

import pytest
from aeg import aegis256
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from svc_cluster.base.errors import DecryptionFailedError, InternalError
from svc_cluster.gateway.records.record_cipher import RecordCipher, associated_data
from svc_cluster.gateway.request.record_key import RecordKey
from svc_cluster.model.cipher import AEGIS_256, AES_256_GCM, StreamIdentity

AEGIS: Final = StreamIdentity(7, 9, AEGIS_256)
GCM: Final = StreamIdentity(7, 9, AES_256_GCM)
CANARY: Final = b"canary-canary-canary-canary-0123"

# draft-irtf-cfrg-aegis-aead, "AEGIS-256 Test Vectors", with the tag of 128 bits.
AEGIS_KEY: Final = bytes.fromhex("1001" + 30 * "00")
AEGIS_NONCE: Final = bytes.fromhex("100002" + 29 * "00")
AEGIS_VECTORS: Final = [
    ("", 16 * "00", "754fc3d8c973246dcc6d741412a4b236", "3fe91994768b332ed7f570a19ec5896e"),
    ("", "", "", "e3def978a0f054afd1e761d7553afba3"),
    (
        bytes(range(8)).hex(),
        bytes(range(32)).hex(),
        "f373079ed84b2709faee373584585d60accd191db310ef5d8b11833df9dec711",
        "8d86f91ee606e9ff26a01b64ccbdd91d",
    ),
    (
        bytes(range(8)).hex(),
        bytes(range(14)).hex(),
        "f373079ed84b2709faee37358458",
        "c60b9c2d33ceb058f96e6dd03c215652",
    ),
    (
        bytes(range(42)).hex(),
        bytes(range(16, 56)).hex(),
        "57754a7d09963e7c787583a2e7b859bb24fa1e04d49fd550b2511a358e3bca252a9b1b8b30cc4a67",
        "ab8a7d53fd0e98d727accca94925e128",
    ),
]
# Key, nonce, associated data, ciphertext, tag: each must be refused.
AEGIS_FORGERIES: Final = [
    ("100002" + 29 * "00", "1001" + 30 * "00", 7, "f373079ed84b2709faee37358458", "56", "52"),
    ("1001" + 30 * "00", "100002" + 29 * "00", 7, "f373079ed84b2709faee37358459", "56", "52"),
    ("1001" + 30 * "00", "100002" + 29 * "00", 8, "f373079ed84b2709faee37358458", "56", "52"),
    ("1001" + 30 * "00", "100002" + 29 * "00", 7, "f373079ed84b2709faee37358458", "56", "53"),
]

# McGrew and Viega, "The Galois/Counter Mode of Operation", test cases 13 to 16 (AES-256), which
# NIST SP 800-38D goes by.
GCM_KEY: Final = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308"
GCM_PLAIN: Final = (
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
    "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255"
)
GCM_SEALED: Final = (
    "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
    "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad"
)
GCM_VECTORS: Final = [
    (64 * "0", 24 * "0", "", "", "", "530f8afbc74536b9a963b4f1c4cb738b"),
    (
        *(64 * "0", 24 * "0", "", 32 * "0"),
        *("cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919"),
    ),
    (
        *(GCM_KEY, "cafebabefacedbaddecaf888", "", GCM_PLAIN),
        *(GCM_SEALED, "b094dac5d93471bdec1a502270e3cc6c"),
    ),
    (
        *(GCM_KEY, "cafebabefacedbaddecaf888", "feedfacedeadbeeffeedfacedeadbeefabaddad2"),
        *(GCM_PLAIN[:120], GCM_SEALED[:120], "76fc6ece0f4e1768cddf8853bb2d551b"),
    ),
]


class Counter:
    """A source of bytes that never repeats, and can be foretold."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, size: int) -> bytes:
        self.count += 1
        return self.count.to_bytes(size, "big")


def cipher(identity: StreamIdentity, secret: bytes = CANARY) -> RecordCipher:
    return RecordCipher(identity, RecordKey(secret), Counter())


@pytest.mark.parametrize(("ad", "plain", "sealed", "tag"), AEGIS_VECTORS)
def test_aegis_256_is_that_of_the_draft(ad: str, plain: str, sealed: str, tag: str) -> None:
    """Every vector of the draft, both ways."""
    data, associated = bytes.fromhex(plain), bytes.fromhex(ad)
    found = aegis256.encrypt(AEGIS_KEY, AEGIS_NONCE, data, associated)
    assert found.hex() == sealed + tag
    assert aegis256.decrypt(AEGIS_KEY, AEGIS_NONCE, found, associated) == data


@pytest.mark.parametrize(("key", "nonce", "ad_end", "sealed", "first", "last"), AEGIS_FORGERIES)
def test_aegis_256_refuses_what_the_draft_says(
    key: str, nonce: str, ad_end: int, sealed: str, first: str, last: str
) -> None:
    """Another key and nonce, ciphertext, associated data or tag does not verify."""
    ad = bytes((*range(7), ad_end))
    tag = f"c60b9c2d33ceb058f96e6dd03c21{first}{last}"
    with pytest.raises(ValueError, match="authentication"):
        aegis256.decrypt(bytes.fromhex(key), bytes.fromhex(nonce), bytes.fromhex(sealed + tag), ad)


@pytest.mark.parametrize(("key", "nonce", "ad", "plain", "sealed", "tag"), GCM_VECTORS)
def test_aes_256_gcm_is_that_of_the_standard(
    key: str, nonce: str, ad: str, plain: str, sealed: str, tag: str
) -> None:
    """Every published case with a key of 256 bits and a nonce of 96, both ways, and a flipped
    tag."""
    library = AESGCM(bytes.fromhex(key))
    where = (bytes.fromhex(nonce), bytes.fromhex(ad))
    found = library.encrypt(where[0], bytes.fromhex(plain), where[1])
    assert found.hex() == sealed + tag
    assert library.decrypt(where[0], found, where[1]).hex() == plain
    with pytest.raises(InvalidTag):
        library.decrypt(where[0], found[:-1] + bytes((found[-1] ^ 1,)), where[1])


@pytest.mark.parametrize("identity", [AEGIS, GCM], ids=lambda identity: identity.cipher)
def test_a_sealed_record_is_suite_nonce_ciphertext_and_tag(identity: StreamIdentity) -> None:
    """Byte by byte as contracted, with the stream as associated data; an empty record too."""
    for plain in (b"", b"x", b"headers and body" * 100):
        sealed = cipher(identity).seal(plain)
        if identity is AEGIS:
            assert (sealed[0], len(sealed)) == (1, 1 + 32 + len(plain) + 16)
            nonce, rest = sealed[1:33], sealed[33:]
            opened = bytes(aegis256.decrypt(CANARY, nonce, rest, associated_data(identity)))
        else:
            assert (sealed[0], len(sealed)) == (2, 1 + 12 + len(plain) + 16)
            nonce, rest = sealed[1:13], sealed[13:]
            opened = AESGCM(CANARY).decrypt(nonce, rest, associated_data(identity))
        assert opened == plain == cipher(identity).open(sealed)


@pytest.mark.parametrize("identity", [AEGIS, GCM], ids=lambda identity: identity.cipher)
def test_no_two_records_are_sealed_with_one_nonce(identity: StreamIdentity) -> None:
    """Each seal asks for a new one, of the full size."""
    source = Counter()
    sealing = RecordCipher(identity, RecordKey(CANARY), source)
    sealed = {sealing.seal(b"same") for _ in range(100)}
    assert (len(sealed), source.count) == (100, 100)


@pytest.mark.parametrize("identity", [AEGIS, GCM], ids=lambda identity: identity.cipher)
def test_a_record_opens_only_as_what_it_is(identity: StreamIdentity) -> None:
    """Not with another key, not as another stream's, not under the other cipher, not when any bit
    of it has changed, and not when it is cut short anywhere."""
    sealed = cipher(identity).seal(b"plain")
    other = {AEGIS_256: AES_256_GCM, AES_256_GCM: AEGIS_256}[identity.cipher or ""]
    wrong = [
        cipher(identity, CANARY[:-1] + b"4"),
        cipher(StreamIdentity(7, 8, identity.cipher)),
        cipher(StreamIdentity(8, 9, identity.cipher)),
        cipher(StreamIdentity(7, 9, other)),
    ]
    for one in wrong:
        with pytest.raises(DecryptionFailedError):
            one.open(sealed)
    for bit in range(8 * len(sealed)):
        changed = bytearray(sealed)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DecryptionFailedError):
            cipher(identity).open(bytes(changed))
    for end in range(len(sealed)):
        with pytest.raises(DecryptionFailedError):
            cipher(identity).open(sealed[:end])


def test_a_cipher_of_a_newer_version_is_refused() -> None:
    """Rather than sealed with something else."""
    with pytest.raises(InternalError):
        cipher(StreamIdentity(1, 1, "chacha"))


def test_a_key_is_base64_of_32_bytes() -> None:
    """Everything else is no key."""
    assert RecordKey.parse("Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5LTAxMjM=") is not None
    for text in (
        "",
        "Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5LTAxMjM",
        "Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5LTAxMjMh",
        "Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5LTAxMj_=",
        "Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5LTAx",
    ):
        assert RecordKey.parse(text) is None


def test_a_key_shows_itself_nowhere() -> None:
    """Not printed, formatted or copied, which takes what pickling takes, nor in the traceback of
    what failed with it."""
    key = RecordKey(CANARY)
    sealing = RecordCipher(GCM, key, Counter())
    for one in (key, sealing):
        shown = f"{one!r} {one} {[one]}"
        assert "canary" not in shown
        assert CANARY.hex() not in shown
        for leave in (copy.copy, copy.deepcopy):
            with pytest.raises(TypeError):
                leave(one)
    for identity in (AEGIS, GCM):
        with pytest.raises(DecryptionFailedError) as failed:
            RecordCipher(identity, key, Counter()).open(bytes(100))
        sealed = cipher(identity, bytes(32)).seal(b"secret words")
        with pytest.raises(DecryptionFailedError) as refused:
            RecordCipher(identity, key, Counter()).open(sealed)
        for info in (failed, refused):
            text = "".join(traceback.format_exception(info.value))
            assert "canary" not in text
            assert sealed.hex() not in text
            assert info.value.__cause__ is None


def test_fingerprints_tell_keys_apart_within_one_salt() -> None:
    """And mean nothing under another."""
    one, same, other = RecordKey(CANARY), RecordKey(CANARY), RecordKey(bytes(32))
    assert one.fingerprint(b"salt") == same.fingerprint(b"salt") != other.fingerprint(b"salt")
    assert one.fingerprint(b"salt") != one.fingerprint(b"pepper")
    assert CANARY not in one.fingerprint(b"salt")
