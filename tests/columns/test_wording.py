"""Long names in messages and tables."""

from __future__ import annotations

from vgi_cli.columns.wording import LONG_NAME, brief, cut_names

ASKED = "How much do you agree, in all, with what follows? " * 8


def test_a_long_name_keeps_both_of_its_ends() -> None:
    assert brief("a\nb", 5) == "a b" and brief("abcdefghijkl", 9) == "abcde…jkl"
    assert len(brief(ASKED)) == LONG_NAME
    first, second = (brief(ASKED + end) for end in ("[trains]", "[buses]"))
    assert first != second and first.endswith("[trains]") and first.startswith("How much do you agree")


def test_names_are_cut_in_messages_but_not_in_flags_and_paths() -> None:
    name, path = ASKED + "[buses]", "/data/" + "folder/" * 30
    said = cut_names(f"columns '{name}', 'b' ({name!r}): `--column '{name}=carry'` if so; else see '{path}'")
    short = brief(name)
    assert said == f"columns '{short}', 'b' ('{short}'): `--column '{name}=carry'` if so; else see '{path}'"
    assert "…" in said
    plain = "it isn't so, " + "and a long line that holds no name " * 5 + "doesn't change 'b'"
    assert cut_names(plain) == plain
