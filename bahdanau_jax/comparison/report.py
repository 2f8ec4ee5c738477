"""The report of a comparison: one HTML page that needs no network, in light and dark."""

import html
import json
import math
from collections.abc import Iterable, Sequence

from bahdanau_jax.comparison import comparison_figures
from bahdanau_jax.comparison.compare import (
    Comparison,
    Pair,
    command_lines,
    count,
    spread,
)
from bahdanau_jax.comparison.sample_alignments import Sample
from bahdanau_jax.evaluation.metrics import METRICS, higher_is_better
from bahdanau_jax.reports import charts

_DEVELOPMENT = ("dev/wer", "dev/bleu", "dev/nll_per_token")  # beside all figures of test splits

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f24; --muted: #69707a; --line: #dfe3e8;
  --panel: #f6f7f9; --bad: #b3261e; --bad-paper: #fdecea; --c0: #0a5fb4; --c1: #c2410c;
  --c2: #0f766e; --c3: #86198f; --c4: #8a6a00; --c5: #be123c; --c6: #4b5563; --c7: #3f6212; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e6e9ed; --muted: #98a1ac;
  --line: #2e343c; --panel: #1c2026; --bad: #ff9d94; --bad-paper: #3b1c1a; --c0: #6cb2ff;
  --c1: #ff9b5e; --c2: #4fd1c0; --c3: #e08cf0; --c4: #e6c34a; --c5: #ff8aa3; --c6: #b6bec9;
  --c7: #a6d15a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1060px; padding: 24px 20px 64px; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 36px 0 8px; }
p, ul { margin: 8px 0; max-width: 80ch; } .muted, figcaption { color: var(--muted); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; margin: 8px 0; }
th, td { padding: 5px 10px; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; } th { font-weight: 600; white-space: normal; vertical-align: bottom; }
th:first-child, td:first-child, td.text { text-align: left; }
td.best { font-weight: 700; }
.failed { background: var(--bad-paper); border-left: 4px solid var(--bad); padding: 8px 16px;
  margin: 16px 0; } .failed b { color: var(--bad); }
figure { margin: 12px 0; } .pair { display: grid; gap: 8px 24px;
  grid-template-columns: repeat(auto-fit, minmax(420px, 1fr)); }
@media (max-width: 500px) { .pair { grid-template-columns: 1fr; } }
svg { max-width: 100%; height: auto; display: block; } svg text { font: 12px system-ui, sans-serif;
  fill: var(--ink); } svg .label { fill: var(--muted); }
svg .grid { stroke: var(--line); } svg .zero { stroke: var(--ink); stroke-dasharray: 3 3; }
svg .front { stroke: var(--muted); stroke-dasharray: 4 4; } svg .cell { fill: var(--ink); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: 13px; margin: 4px 0 0; }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 3px;
  margin-right: 6px; vertical-align: -1px; }
.maps { display: flex; flex-wrap: wrap; gap: 16px; align-items: flex-start; }
.maps figcaption { font-size: 13px; } code, pre { font: 13px/1.5 ui-monospace, monospace; }
pre { background: var(--panel); padding: 10px 14px; overflow-x: auto; white-space: pre-wrap;
  overflow-wrap: anywhere; }
"""


def page(comparison: Comparison, samples: Sequence[Sample]) -> str:
    """Returns the whole page.

    Args:
      comparison: the figures.
      samples: sentences with the alignments of several configurations.
    """
    results = comparison.results
    title = f"Comparison: {results.directory.name}"
    parts = [
        f"<h1>{_text(title)}</h1>",
        _introduction(comparison),
        _failures(comparison),
        _answers(comparison),
        _table(comparison),
        _differences(comparison),
        comparison_figures.curves(comparison),
        comparison_figures.lengths(comparison),
        comparison_figures.alignments(samples),
        _costs(comparison),
        _reproduction(comparison),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body>\n</html>\n"
    )


def _introduction(comparison: Comparison) -> str:
    results = comparison.results
    runs = sum(len(c.runs) for c in results.configurations)
    sentences = ""
    if comparison.test_set is not None:
        sentences = f", tested on {len(comparison.test_set.sources):,} sentences"
    metric = METRICS[comparison.metric].shown
    better = "more" if higher_is_better(comparison.metric) else "less"
    return (
        f'<p class="muted">{len(results.configurations)} configurations, {runs} runs{sentences} of '
        f"<code>{_text(comparison.split)}</code>. {_text(metric)} decides; {better} is better. "
        "Figures are mean ± standard deviation over seeds.</p>"
    )


def _failures(comparison: Comparison) -> str:
    missing = comparison.results.missing
    if not missing:
        return ""
    items = "".join(f"<li><b>{_text(m.name)}</b> {_text(m.why)}</li>" for m in missing)
    return (
        f'<div class="failed"><b>{len(missing)} of the sweep\'s cells are missing from all '
        f"figures below</b><ul>{items}</ul></div>"
    )


def _answers(comparison: Comparison) -> str:
    pairs = comparison.pairs.get(comparison.metric, [])
    if not pairs:
        return ""
    items = "".join(f"<li>{_text(pair.sentence)}</li>" for pair in pairs)
    several = ""
    if len(pairs) > 1:
        several = (
            f" {len(pairs)} pairs are compared, so a pair is called better only if its p value "
            "holds after Holm's adjustment for as many."
        )
    return (
        f"<h2>Which is better?</h2><ul>{items}</ul>"
        '<p class="muted">Intervals hold two sources of noise: other test sentences (paired '
        "bootstrap, 1,000 samples, the same for all runs) and other seeds (Student's t)."
        f"{several}</p>"
    )


def _table(comparison: Comparison) -> str:
    names = sorted(comparison.summaries, key=lambda name: not name.startswith("test"))
    names = [name for name in names if name.startswith("test") or name in _DEVELOPMENT]
    best = {}
    for name in names:
        found, sign = comparison.summaries[name], 1 if higher_is_better(name) else -1
        best[name] = max(found, key=lambda label, f=found, s=sign: s * f[label].mean)
    rows = []
    for configuration in comparison.results.configurations:
        label = configuration.label
        cells = [f"<td>{_text(label)}</td><td>{len(configuration.runs)}</td>"]
        for name in names:
            found = comparison.summaries[name]
            mark = ' class="best"' if best[name] == label and len(found) > 1 else ""
            cells.append(f"<td{mark}>{spread(found[label]) if label in found else ''}</td>")
        rows.append("".join(cells))
    return "<h2>Quality</h2>" + _rows(["configuration", "seeds", *names], rows)


def _differences(comparison: Comparison) -> str:
    parts = []
    for metric, pairs in comparison.pairs.items():
        if not pairs:
            continue
        name = METRICS[metric].shown
        better = "right" if higher_is_better(metric) else "left"
        rows = [
            charts.Interval(
                f"{p.first} − {p.second}", p.difference.value, p.difference.low, p.difference.high
            )
            for p in pairs
        ]
        chart = charts.intervals(rows, f"difference in {name}; the first is better to the {better}")
        parts.append(f"<h3>{_text(name)}</h3><figure>{chart}</figure>{_pair_table(pairs)}")
    if not parts:
        return ""
    return "<h2>Every pair</h2>" + "".join(parts)


def _pair_table(pairs: Sequence[Pair]) -> str:
    rows = []
    for pair in pairs:
        difference = pair.difference
        low, high = difference.sentences
        bootstrap = "–" if math.isnan(low) else f"{low:.3g} to {high:.3g}"
        both = (
            "–" if math.isnan(difference.low) else f"{difference.low:.3g} to {difference.high:.3g}"
        )
        rows.append(
            f"<td>{_text(pair.first)} − {_text(pair.second)}</td><td>{difference.value:.3g}</td>"
            f"<td>{bootstrap}</td><td>{_p(difference.seeds_p)}</td><td>{both}</td>"
            f"<td>{_p(difference.p)}</td><td>{_p(pair.adjusted_p)}</td>"
        )
    head = ["pair", "difference", "95 % over sentences (bootstrap)", "p over seeds (Welch)"]
    return _rows([*head, "95 % over both", "p over both", "p adjusted (Holm)"], rows)


def _costs(comparison: Comparison) -> str:
    rows = []
    for label, cost in comparison.costs.items():
        step = "–" if math.isnan(cost.step_seconds) else f"{1000 * cost.step_seconds:,.1f}"
        peak = "–" if math.isnan(cost.peak_bytes) else f"{cost.peak_bytes / 2**20:,.0f}"
        rows.append(
            f"<td>{_text(label)}</td><td>{count(cost.parameters)}</td><td>{step}</td>"
            f"<td>{count(cost.tokens_per_second)}</td><td>{peak}</td>"
        )
    head = ["configuration", "parameters", "ms a step", "target tokens a second", "peak MiB"]
    figures = [
        comparison_figures.pareto(
            comparison, "parameters", {k: c.parameters for k, c in comparison.costs.items()}
        ),
        comparison_figures.pareto(
            comparison,
            "seconds per 1,000 target tokens",
            {k: 1000 / c.tokens_per_second for k, c in comparison.costs.items()},
        ),
    ]
    return (
        "<h2>Cost</h2>"
        + _rows(head, rows)
        + '<p class="muted">Medians over the training of all runs; the time of a step depends on '
        "the machine and on what else ran there.</p>"
        + f'<div class="pair">{"".join(figures)}</div>'
    )


def _reproduction(comparison: Comparison) -> str:
    results = comparison.results
    starts = [run.manifest for c in results.configurations for run in c.runs]
    commands = "\n".join(command_lines(results))
    parts = ["<h2>How to make this again</h2>"]
    if commands:
        parts.append(f"<pre>{_text(commands)}</pre>")
    for note in results.notes:
        parts.append(f"<p>{_text(note)}</p>")
    facts = [
        ("code", _different(json.dumps(s.get("git")) for s in starts)),
        ("versions", _different(_listed(s.get("versions", {})) for s in starts)),
        ("devices", _different(_listed(s.get("devices", {})) for s in starts)),
        ("data", _different(_listed(s.get("fingerprints", {})) for s in starts)),
    ]
    rows = [
        f"<td>{_text(name)}</td><td class='text'>{'<br>'.join(map(_text, values))}</td>"
        for name, values in facts
    ]
    return "".join(parts) + _rows(["", ""], rows, wrap=True)


def _different(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _listed(facts: dict) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def _rows(head: Sequence[str], rows: Sequence[str], wrap: bool = False) -> str:
    heads = "".join(f"<th>{_text(name)}</th>" for name in head)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    style = ' style="white-space: normal; overflow-wrap: anywhere"' if wrap else ""
    if wrap:
        body = body.replace("<td class='text'>", f"<td class='text'{style}>")
    top = f"<thead><tr>{heads}</tr></thead>" if any(head) else ""
    return f'<div class="scroll"><table>{top}<tbody>{body}</tbody></table></div>'


def _p(value: float) -> str:
    if math.isnan(value):
        return "–"
    return "&lt; 0.001" if value < 0.001 else f"{value:.3f}"


def _text(value: object) -> str:
    return html.escape(str(value))
