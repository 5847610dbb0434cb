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
