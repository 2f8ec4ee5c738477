"""One self-contained HTML page of alignments: pointing at a word lights its row.

The page loads nothing, says so in its policy, and follows the reader's light or dark setting.
"""

import html
from collections.abc import Iterable, Sequence

import numpy as np

from bahdanau_jax.data.gold_links import GoldLinks
from bahdanau_jax.evaluation.word_alignment import WordAlignment

END = "∎"  # stands for the end of the source sentence

_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --paper: #fdfdfb; --ink: #1c1c1a; --soft: #6b6b66;
  --line: #dcdcd6; --heat: 194 65 12; --mark: #1d4ed8; }}
@media (prefers-color-scheme: dark) {{ :root {{ --paper: #171715; --ink: #ecece6; --soft: #a3a39c;
  --line: #3a3a36; --heat: 251 146 60; --mark: #93c5fd; }} }}
body {{ margin: 2rem auto; max-width: 72rem; padding: 0 1rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }}
p {{ color: var(--soft); max-width: 60ch; }}
section {{ margin: 2.5rem 0; padding-top: 1rem; border-top: 1px solid var(--line); }}
h2 {{ font-size: 1rem; margin: 0 0 .5rem; color: var(--soft); font-weight: 600; }}
.scroll {{ overflow-x: auto; padding-bottom: .5rem; }}
table {{ border-collapse: collapse; }}
th {{ font-weight: 400; }}
thead th {{ vertical-align: bottom; padding: 0; }}
thead span {{ display: block; writing-mode: vertical-rl; text-orientation: sideways;
  rotate: 180deg; padding: .3rem .15rem;
  border-radius: .2rem; white-space: nowrap; }}
tbody th {{ text-align: right; padding: 0 .5rem; white-space: nowrap; cursor: default;
  border-radius: .2rem; }}
td {{ width: 1.5rem; height: 1.5rem; min-width: 1.5rem; padding: 0; border: 1px solid var(--line);
  background: rgb(var(--heat) / var(--w)); }}
td.sure {{ box-shadow: inset 0 0 0 2px var(--mark); }}
td.possible {{ box-shadow: inset 0 0 0 1px var(--mark); }}
thead span, tbody th {{ background: rgb(var(--heat) / calc(.6 * var(--lit, 0))); }}
tbody tr:hover th, tbody th:focus-visible {{ font-weight: 600; outline: 2px solid var(--mark); }}
tbody tr:hover td {{ border-block-color: var(--mark); }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{moment} Point at a word, or move to it with the tabulator key: its row lights the source
words by their weight. Pointing at a source word lights the words that attend to it. {legend}</p>
"""

_SCRIPT = """<script>
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells].slice(1).map(cell => cell.firstElementChild);
  const rows = [...table.tBodies[0].rows];
  const weight = cell => cell.style.getPropertyValue("--w");
  const dark = () => [...heads, ...rows.map(row => row.cells[0])]
    .forEach(part => part.style.removeProperty("--lit"));
  const light = event => {
    dark();
    const row = rows.find(row => row.contains(event.target));
    if (row) {
      heads.forEach((head, i) => head.style.setProperty("--lit", weight(row.cells[i + 1])));
      return;
    }
    const i = heads.findIndex(head => head.parentElement.contains(event.target));
    if (i >= 0) rows.forEach(
      row => row.cells[0].style.setProperty("--lit", weight(row.cells[i + 1])));
  };
  table.addEventListener("pointerover", light);
  table.addEventListener("focusin", light);
  table.addEventListener("pointerleave", dark);
  table.addEventListener("focusout", dark);
}
</script>
</body>
</html>
"""


def alignment_page(
    alignments: Iterable[tuple[str, WordAlignment]],
    *,
    title: str,
    moment: str,
    gold: Sequence[GoldLinks] | None = None,
) -> str:
    """Returns the page.

    Args:
      alignments: each with a heading, as `test 17`.
      title: of the page.
      moment: a sentence that says which step a row belongs to.
      gold: links of each pair, drawn as frames; None: there are none.

    Returns:
      The HTML text; every word in it is escaped.
    """
    legend = "Thick frames are sure gold links, thin ones possible ones." if gold else ""
    parts = [
        _HEAD.format(
            title=html.escape(title), moment=html.escape(moment), legend=html.escape(legend)
        )
    ]
    for number, (heading, alignment) in enumerate(alignments):
        parts += _section(heading, alignment, gold[number] if gold else None)
    return "".join([*parts, _SCRIPT])


def _section(heading: str, alignment: WordAlignment, gold: GoldLinks | None) -> list[str]:
    parts = [
        f"<section>\n<h2>{_shown(heading)}</h2>\n",
        '<div class="scroll"><table>\n<thead><tr><th></th>',
    ]
    for word in [*alignment.source, END]:
        label = ' title="end of the sentence"' if word is END else ""  # a word may look like it
        parts.append(f'<th scope="col"{label}><span><bdi>{_shown(word)}</bdi></span></th>')
    parts.append("</tr></thead>\n<tbody>\n")
    for j, (word, row) in enumerate(zip(alignment.target, alignment.weights, strict=True)):
        parts.append(f'<tr><th scope="row" tabindex="0"><bdi>{_shown(word)}</bdi></th>')
        parts += [_cell(weight, (i, j), gold) for i, weight in enumerate(row)]
        parts.append("</tr>\n")
    parts.append("</tbody>\n</table></div>\n</section>\n")
    return parts


def _cell(weight: np.floating, link: tuple[int, int], gold: GoldLinks | None) -> str:
    kind = ""
    if gold and link in gold.possible:
        kind = ' class="sure"' if link in gold.sure else ' class="possible"'
    shown = f"{weight:.3f}".rstrip("0").rstrip(".")
    return f'<td{kind} style="--w:{shown}" title="{shown}"></td>'


def _shown(word: str) -> str:
    """Returns a word as text of HTML; what HTML can't hold is replaced."""
    kept = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in word)
    return html.escape(kept)
