"""Style and behaviour of the HTML report: what the page carries within itself. Pure.

No network, no framework. Colours follow the reader's system (light or dark); pictures keep a white
card in both, because they are drawn for print.
"""

STYLE = """\
:root { color-scheme: light dark; --ground: #ffffff; --ink: #1b1f24; --soft: #57606a;
  --line: #d0d7de; --panel: #f6f8fa; --link: #0757ba; --mark: #9a6700; --mark-ground: #fff8c5; }
@media (prefers-color-scheme: dark) { :root { --ground: #0f1419; --ink: #e6edf3; --soft: #9aa5b1;
  --line: #363d46; --panel: #171d24; --link: #79b8ff; --mark: #e3b341; --mark-ground: #2b2410; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem clamp(.75rem, 3vw, 2rem) 4rem; max-width: 78rem;
  background: var(--ground); color: var(--ink); font: 16px/1.55 system-ui, sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 1.2rem 0 .6rem; }
h2 { font-size: 1.3rem; margin: 2.2rem 0 .6rem; padding-top: .6rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .5rem; }
p, li { max-width: 72ch; }
ul { padding-left: 1.2rem; }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
code { font: .9em ui-monospace, monospace; background: var(--panel); padding: .1em .3em;
  border-radius: 4px; }
blockquote { margin: 1rem 0; padding: .5rem 1rem; border-left: 4px solid var(--mark);
  background: var(--mark-ground); }
blockquote p { margin: .3rem 0; }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; padding: 0; margin: .6rem 0 0;
  list-style: none; }
.wide { overflow-x: auto; margin: 0 0 1.4rem; border: 1px solid var(--line);
  border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: .93rem;
  font-variant-numeric: tabular-nums; }
.caption { color: var(--soft); font-size: .85rem; margin: .9rem 0 .3rem; max-width: none; }
th, td { padding: .4rem .6rem; text-align: right; vertical-align: top; overflow-wrap: normal;
  border-top: 1px solid var(--line); }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--ground); }
thead th, thead th:first-child { background: var(--panel); vertical-align: bottom; border-top: 0; }
th.words, td.words { text-align: left; }
td.words { min-width: 9.5rem; }
th button { all: unset; cursor: pointer; font-weight: 600; }
th button:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
th button::after { content: "\\a0\\2195"; color: var(--soft); }
th[aria-sort=ascending] button::after { content: "\\a0\\2191"; color: var(--ink); }
th[aria-sort=descending] button::after { content: "\\a0\\2193"; color: var(--ink); }
td .spread { display: block; color: var(--soft); font-size: .82rem; white-space: nowrap; }
td a { text-decoration-thickness: 1px; text-underline-offset: 2px; }
.value { white-space: nowrap; }
.failed { color: var(--mark); font-weight: 600; }
figure { margin: 1.2rem 0; }
.picture { margin: 0; width: fit-content; max-width: 100%; background: #fff; }
figure img { display: block; max-width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: .9rem; margin-top: .3rem; }
details { border: 1px solid var(--line); border-radius: 8px; margin: .5rem 0; padding: 0 .8rem; }
details[open] { padding-bottom: .6rem; }
summary { cursor: pointer; padding: .5rem 0; font-weight: 600; }
summary span { color: var(--soft); font-weight: 400; }
:target { scroll-margin-top: 1rem; }
details:target, details:has(:target) { border-color: var(--link); }
footer { margin-top: 3rem; color: var(--soft); font-size: .9rem; }
@media (max-width: 40rem) { body { font-size: 15px; } h1 { font-size: 1.45rem; }
  th, td { padding: .35rem .5rem; }
  .picture img { max-width: none; width: 42rem; } }
@media print { details > * { display: block; } th button::after { content: ""; } }
"""

SCRIPT = """\
'use strict';
// Sorting: a click (or Enter, Space: it is a button) on a header sorts by that column; again turns
// it round. What is no number stays at the end both ways.
for (const button of document.querySelectorAll('th button')) {
  button.addEventListener('click', () => {
    const head = button.parentElement, table = head.closest('table');
    const column = [...head.parentElement.children].indexOf(head);
    const down = head.getAttribute('aria-sort') === 'ascending';
    for (const other of head.parentElement.children) other.setAttribute('aria-sort', 'none');
    head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const body = table.tBodies[0], words = head.classList.contains('words');
    const key = row => row.children[column].dataset.value ?? '';
    const known = row => key(row) !== '';
    const order = (a, b) => {
      if (known(a) !== known(b)) return known(a) ? -1 : 1;
      const by = words ? key(a).localeCompare(key(b), 'en', { numeric: true }) : key(a) - key(b);
      return down ? -by : by;
    };
    body.append(...[...body.rows].sort(order));
  });
}
// A link to the runs behind a number opens their list.
function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const folded = target && target.closest('details');
  if (folded) { folded.open = true; target.scrollIntoView(); }
}
addEventListener('hashchange', reveal);
reveal();
"""
