"""Two hundred lines that a translator has tripped over somewhere: all of them valid UTF-8."""

import random

COUNT = 200
# The lines that are empty once white space is taken away.
BLANK = ["", " ", "   ", "\t", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\xa0"]
BLANK += ["\u2028", "\u2029", "\u3000", "\u2003\u2009", " \t \x0b\x0c "]

LONG = ["cafe " * 2000, "a" * 5000, "\U0001f600" * 300, "e" + "\u0301" * 400]

MARKS = ["<s>", "</s>", "<pad>", "<unk>", "⁇", "▁", "▁▁ ▁", "\ufffd", "<s> fed </s>", "|||", "@@"]

SCRIPTS = [
    "مرحبا بالعالم",
    "שלום עולם",
    "\u202efed\u202c",
    "fed \u200f\u200e cab",
    "a\u200db\u200cc\u200b",
    "नमस्ते",
    "你好，世界",
    "こんにちは",
    "Ελληνικά",
    "кириллица",
    "ไทย",
    "\U00010330\U00010331",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f44d\U0001f3fd \U0001f1e9\U0001f1ea",
    "e\u0301 = \u00e9",
    "ﬁ ﬂ ㎏ Ⅷ",
    "İ ı ſ ß ẞ",
    "\ue000 \U000f0000 \U0010fffd",
    "\uffff \ufffe \U0010ffff \ufdd0",
    "\ufeff",
    "fed\ufeff",
]

SYNTAX = [
    "fed\tcab",
    "fed\rcab",
    "fed\r",
    "\\n \\t \\0 \\x00",
    '"fed',
    "'; DROP TABLE lines; --",
    "%s %d %n {0} {} ${HOME} `ls` $(ls)",
    "--mode=train",
    "-",
    "NaN inf -inf 1e999",
    "null None undefined",
    "<b>&amp;</b> &#0;",
    "http://example.org/?a=b&c=d",
    "{" * 60 + "}" * 60,
]


def lines() -> list[str]:
    """Returns the lines, the same ones every time; none holds a line feed."""
    made = [*BLANK, *LONG, *MARKS, *SCRIPTS, *SYNTAX]
    for code in (*range(0x00, 0x20), *range(0x7F, 0xA0)):
        if code != 0x0A:
            made.append(f"fe{chr(code)}d")
    chance = random.Random(0)
    while len(made) < COUNT:
        codes = [chance.randrange(0x20, 0x11000) for _ in range(chance.randint(1, 60))]
        made.append("".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000))
    return made[:COUNT]
