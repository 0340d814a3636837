"""Which texts are keys, which start with a prefix, and in which order they come."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from snapshots import limits
from snapshots.testing.suite.acting import refused

if TYPE_CHECKING:
    from snapshots.storage import Backend, Scope
    from snapshots.testing import ManualClock

# Wildcards of SQL, escapes, cases, accents in two forms, spaces, a line's end, and characters
# whose order in UTF-16 or in a language is another than that of code points.
KEYS: Final = (
    *("%", "%%", "a%", "a%b", "ab", "a_", "a_b", "axb", "a\\", "a\\b", "\\", "_", "'", '"', "--"),
    *("A", "a", "B", "b", "Z", "z", "é", "e\u0301", "e", "f", "ä", "ß", "ss", "I", "i", "İ"),
    *(
        "\u0131",
        " ",
        "a ",
        " a",
        "\t",
        "a\nb",
        "\x01",
        "\x7f",
        "\u200b",
        "\ufeff",
        "0",
        "00",
        "10",
        "9",
    ),
    *("\ud7ff", "\ue000", "\uffff", "\U00010000", "😀", "\U0010ffff", "\U0010ffff\U0010ffff"),
)
PREFIXES: Final = (
    *("", "%", "_", "a", "a%", "a_", "\\", "a\\", "e", "é", " ", "\ud7ff", "\uffff"),
    *("\U0010ffff", "\U0010ffff" * 3, "nothing starts so"),
)
WIDEST: Final = "😀" * (limits.KEY_BYTES_MAX // 4)
REFUSED: Final = (
    *("", "\x00", "a\x00b", "\ud800", "a\udfff", "\ud83d\ude00"),
    *("a" * (limits.KEY_CHARS_MAX + 1), WIDEST + "a", "\x00" * 300),
)


class KeyBehaviours:
    """Behaviours of the keys of `KeyedStates`, which are those of every other name."""

    def test_every_text_is_a_key_of_its_own(self, backend: Backend, scope: Scope) -> None:
        """Nothing is folded, trimmed, normalised or taken for a pattern."""
        for number, key in enumerate(KEYS):
            assert backend.keyed.put_if_absent(scope, key, str(number).encode())
        for number, key in enumerate(KEYS):
            assert backend.keyed.get(scope, key) == str(number).encode()

    def test_keys_are_listed_in_the_order_of_code_points(
        self, backend: Backend, scope: Scope
    ) -> None:
        """As Python sorts them, whatever the language of the machine or the server."""
        for key in KEYS:
            backend.keyed.put(scope, key, b"")
        assert [entry.key for entry in backend.keyed.list(scope)] == sorted(KEYS)

    def test_a_prefix_means_its_characters(self, backend: Backend, scope: Scope) -> None:
        """Those keys are listed that start with it, whatever SQL sees in it."""
        for key in KEYS:
            backend.keyed.put(scope, key, b"")
        for prefix in PREFIXES:
            expected = sorted(key for key in KEYS if key.startswith(prefix))
            assert [entry.key for entry in backend.keyed.list(scope, prefix)] == expected

    def test_a_list_goes_on_behind_a_key(self, backend: Backend, scope: Scope) -> None:
        """Page by page every key comes once, also behind one that was deleted meanwhile."""
        for key in KEYS:
            backend.keyed.put(scope, key, b"")
        seen: list[str] = []
        while page := backend.keyed.list(scope, after=seen[-1] if seen else None, limit=7):
            assert len(page) <= 7
            seen += [entry.key for entry in page]
            backend.keyed.delete(scope, seen[-1])
        assert seen == sorted(KEYS)

    def test_a_page_within_a_prefix_starts_at_the_later_of_both(
        self, backend: Backend, scope: Scope
    ) -> None:
        """A key in front of the prefix skips nothing, one behind it leaves nothing."""
        for key in ("a", "b1", "b2", "c"):
            backend.keyed.put(scope, key, b"")

        def listed(after: str) -> list[str]:
            return [entry.key for entry in backend.keyed.list(scope, "b", after=after)]

        assert listed("a") == ["b1", "b2"]
        assert listed("b1") == ["b2"]
        assert listed("b15") == ["b2"]
        assert listed("c") == []

    def test_a_page_is_filled_with_keys_that_are_there(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """Expired ones do not count towards the limit."""
        for number in range(6):
            ttl_ms = 1 if number % 2 == 0 else None
            backend.keyed.put(scope, f"key-{number}", b"", ttl_ms=ttl_ms)
        clock.advance(1)
        page = backend.keyed.list(scope, limit=2)
        assert [entry.key for entry in page] == ["key-1", "key-3"]

    def test_a_list_has_a_bound(self, backend: Backend, scope: Scope) -> None:
        """Nothing, or the bound, may be asked for; one row more is refused."""
        backend.keyed.put(scope, "a", b"")
        assert backend.keyed.list(scope, limit=0) == []
        assert len(backend.keyed.list(scope, limit=limits.LIST_ROWS_MAX)) == 1
        with refused("LimitError"):
            backend.keyed.list(scope, limit=limits.LIST_ROWS_MAX + 1)
        with refused("ValueError"):
            backend.keyed.list(scope, limit=-1)
        strange: Any = "3"
        with refused("TypeError") as refusal:
            backend.keyed.list(scope, limit=strange)
        assert "'3': expected a whole number" in str(refusal.error)

    def test_the_longest_keys_are_taken(self, backend: Backend, scope: Scope) -> None:
        """200 characters, or 512 bytes of UTF-8, in all four parts of a row's key at once."""
        assert len(WIDEST.encode()) == limits.KEY_BYTES_MAX
        for text in ("a" * limits.KEY_CHARS_MAX, WIDEST):
            # The tenant stays the test's own.
            wide = replace(
                scope,
                tenant=scope.tenant + text[len(scope.tenant) :],
                workspace=text,
                workflow=text,
            )
            backend.keyed.put(wide, text, b"1", ttl_ms=1)
            assert backend.keyed.get(wide, text) == b"1"
            assert backend.leases.acquire(wide, text, ttl_ms=10, holder=text) is not None
            backend.carry.save(wide, text, contract_version=1, payload=b"", expected_revision=0)
            with backend.transaction(wide):
                assert [entry.key for entry in backend.keyed.list(wide, text)] == [text]

    def test_what_is_no_key_is_refused_by_every_verb(self, backend: Backend, scope: Scope) -> None:
        """Empty, too long, with a NUL, with half a character: everywhere alike."""
        keyed, carry, leases = backend.keyed, backend.carry, backend.leases
        for key in REFUSED:
            for use in (
                lambda key=key: keyed.get(scope, key),
                lambda key=key: keyed.exists(scope, key),
                lambda key=key: keyed.put(scope, key, b""),
                lambda key=key: keyed.put_if_absent(scope, key, b""),
                lambda key=key: keyed.replace(scope, key, b""),
                lambda key=key: keyed.delete(scope, key),
                lambda key=key: leases.acquire(scope, key, ttl_ms=1_000),
                lambda key=key: leases.read(scope, key),
                lambda key=key: carry.load(scope, key),
                lambda key=key: carry.clear(scope, key),
                lambda key=key: carry.save(
                    scope, key, contract_version=1, payload=b"", expected_revision=0
                ),
                lambda key=key: replace(scope, tenant=key),
                lambda key=key: replace(scope, workspace=key),
                lambda key=key: replace(scope, workflow=key),
            ):
                with refused("InvalidKeyError"):
                    use()
            if key:
                with refused("InvalidKeyError"):
                    keyed.list(scope, key)
                with refused("InvalidKeyError"):
                    keyed.list(scope, after=key)
                with refused("InvalidKeyError"):
                    leases.acquire(scope, "a", ttl_ms=1_000, holder=key)
        assert keyed.list(scope) == []
