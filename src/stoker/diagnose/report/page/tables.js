// ---- Tables: a heading's first word may be '#', which makes a column of numbers. ----

const isNumber = (heading) => heading.startsWith('#');

function rowOf(headings, cells) {
  const cellOf = (cell, i) => (isNumber(headings[i]) ? el('td.number', cell) : el('th', { scope: 'row' }, cell));
  return el('tr', cells.map(cellOf));
}

// `rows` and `foot` are lists of cells. Wide tables scroll separately.
function table(caption, headings, rows, foot) {
  const head = headings.map((name) => el(isNumber(name) ? 'th.number' : 'th', { scope: 'col' }, name.replace('#', '')));
  return el('div.wide', el('table',
    caption && el('caption', caption),
    el('thead', el('tr', head)),
    el('tbody', rows.map((cells) => rowOf(headings, cells))),
    foot && el('tfoot', rowOf(headings, foot))));
}

// `parts` are [name, tenths of a percent, microseconds]. A bar, and its legend: a table of shares and times with the
// sums in its last row. `cells` makes further cells of a part.
function shares(caption, parts, headings, cells) {
  const sum = (at) => parts.reduce((all, part) => all + part[at], 0);
  const row = (part, name) => [name, tenths(part[1]), ...cells(part)];
  const legend = table(caption, headings, parts.map((part) => row(part, [swatch(part[0]), ' ', part[0]])),
    row(['sum', sum(1), sum(2)], 'sum'));
  legend.classList.add('shares');
  return [sharesBar(parts, caption), legend];
}

function sharesBar(parts, label) {
  const host = el('div.chart');
  const text = parts.map(([name, share]) => `${name} ${tenths(share)}`).join(', ');
  const sum = parts.reduce((all, part) => all + part[1], 0) || 1;
  redrawn(host, (width) => {
    const svg = shape('svg', { viewBox: `0 0 ${width} 26`, role: 'img', 'aria-label': `${label}: ${text}` });
    let x = 0;
    for (const [name, share] of parts) {
      const box = { x, y: 0, width: Math.max(0.5, (share / sum) * width - 1), height: 26 };
      if (share > 0) svg.append(...filled(name, box));
      x += (share / sum) * width;
    }
    host.replaceChildren(svg);
  });
  return host;
}

// ---- The operator table: sorted by any column, summed by name, shape or place of call. ----

const COLUMNS = [
  { name: 'Operator', at: 0, text: true },
  { name: 'Shapes', at: 1, text: true, by: 'shape' },
  { name: 'Called at', at: 2, text: true, by: 'place' },
  { name: 'Calls', at: 3, show: (value) => value.toLocaleString('en-US') },
  { name: 'Self, CPU', at: 4, show: duration },
  { name: 'Total, CPU', at: 5, show: duration },
  { name: 'GPU', at: 6, show: duration },
  { name: 'Self memory', at: 7, show: bytes },
  { name: 'FLOPs', at: 8, show: flops },
];
const FIRST_ROWS = 15;

function operatorsTable(data) {
  const [head, body, foot] = [el('tr'), el('tbody'), el('tfoot')];
  const state = { table: data.tables[0], column: null, down: true, all: false };
  const value = (row, column) => (column.text ? data.names[row[column.at]] : row[column.at]);
  const cell = (row, column) => {
    if (column.at === 0) return el('th.code', { scope: 'row' }, value(row, column));
    if (column.text) return el('td.code', value(row, column));
    return el('td.number', row[column.at] ? column.show(row[column.at]) : '–');
  };
  const heading = (column) => {
    const sorted = state.down ? ['descending', ' ▼'] : ['ascending', ' ▲'];
    const [order, arrow] = column === state.column ? sorted : ['none', ''];
    const button = el('button', { type: 'button', on: { click: () => sortBy(column) } }, column.name,
      el('span', { 'aria-hidden': 'true' }, arrow));
    return el(column.text ? 'th' : 'th.number', { scope: 'col', 'aria-sort': order }, button);
  };
  const rest = (columns) => el('tr', columns.map((column) => {
    if (column.at === 0) return el('th', { scope: 'row' }, `${count(state.table.rest_rows, 'other row')}, together`);
    return column.text ? el('td') : cell(state.table.rest, column);
  }));
  const draw = () => {
    const { rows } = state.table;
    const every = state.table.rest ? [...rows, state.table.rest] : rows;
    const isShown = ({ text, by, at }) => (text ? !by || by === state.table.by : every.some((row) => row[at]));
    const columns = COLUMNS.filter(isShown);
    if (!columns.includes(state.column)) state.column = columns.find(({ at }) => at === 6) || columns.find(({ at }) => at > 3);
    const { column, down } = state;
    const sorted = [...rows].sort((a, b) => {
      const [x, y] = [value(a, column), value(b, column)];
      return (column.text ? x.localeCompare(y) : x - y) * (down ? -1 : 1);
    });
    head.replaceChildren(...columns.map(heading));
    body.replaceChildren(...sorted.slice(0, state.all ? rows.length : FIRST_ROWS)
      .map((row) => el('tr', columns.map((each) => cell(row, each)))));
    foot.replaceChildren(...(state.table.rest ? [rest(columns)] : []));
    more.hidden = rows.length <= FIRST_ROWS;
    more.textContent = state.all ? `Show the first ${FIRST_ROWS}` : `Show all ${rows.length}`;
  };
  const sortBy = (column) => {
    state.down = state.column === column ? !state.down : !column.text;
    state.column = column;
    draw();
    head.querySelector('[aria-sort$="ending"] button').focus();
    announce(`Sorted by ${column.name}, ${state.down ? 'descending' : 'ascending'}`);
  };
  const showAll = () => {
    state.all = !state.all;
    draw();
  };
  const group = (event) => {
    state.table = data.tables[event.target.selectedIndex];
    draw();
  };
  const more = el('button', { type: 'button', on: { click: showAll } });
  const groups = data.tables.length > 1 && el('div.tools', el('label', 'Group by ',
    el('select', { on: { change: group } }, data.tables.map(({ by }) => el('option', by)))));
  draw();
  return el('div', groups, el('div.wide', el('table.operators', el('thead', head), body, foot)), more);
}
