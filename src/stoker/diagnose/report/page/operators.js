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
  const value = (row, column) => (column.text ? data.names[row[column.at]] : row[column.at]);
  const state = { table: data.tables[0], column: null, down: true, all: false };
  const body = el('tbody', {});
  const foot = el('tfoot', {});
  const head = el('tr', {});
  const more = el('button', { type: 'button', on: { click: () => { state.all = !state.all; draw(); } } });
  const cell = (row, column) => {
    if (column.at === 0) return el('th', { scope: 'row', class: 'code' }, value(row, column));
    if (column.text) return el('td', { class: 'code' }, value(row, column));
    return el('td', { class: 'number' }, row[column.at] ? column.show(row[column.at]) : '–');
  };
  const draw = () => {
    const { table } = state;
    const every = table.rest ? [...table.rows, table.rest] : table.rows;
    const shown = COLUMNS.filter((column) => (column.text ? !column.by || column.by === table.by : every.some((row) => row[column.at])));
    if (!shown.includes(state.column)) state.column = shown.find((column) => column.at === 6) || shown.find((column) => column.at === 4) || shown[0];
    const { column, down } = state;
    const sorted = [...table.rows].sort((a, b) => {
      const [x, y] = [value(a, column), value(b, column)];
      return (column.text ? x.localeCompare(y) : x - y) * (down ? -1 : 1);
    });
    head.replaceChildren(...shown.map((each) => el('th', { scope: 'col', class: each.text ? null : 'number',
      'aria-sort': each === column ? (down ? 'descending' : 'ascending') : 'none' },
    el('button', { type: 'button', on: { click: () => sortBy(each) } }, each.name, el('span', { class: 'arrow', 'aria-hidden': 'true' }, each === column ? (down ? ' ▼' : ' ▲') : '')))));
    body.replaceChildren(...sorted.slice(0, state.all ? undefined : FIRST_ROWS).map((row) => el('tr', {}, shown.map((each) => cell(row, each)))));
    foot.replaceChildren(...(table.rest ? [el('tr', {}, shown.map((each) => (each.at === 0 ? el('th', { scope: 'row' }, `${count(table.rest_rows, 'other row')}, together`)
      : each.text ? el('td', {}) : cell(table.rest, each))))] : []));
    more.hidden = table.rows.length <= FIRST_ROWS;
    more.textContent = state.all ? `Show the first ${FIRST_ROWS}` : `Show all ${table.rows.length}`;
  };
  const sortBy = (column) => {
    state.down = state.column === column ? !state.down : !column.text;
    state.column = column;
    draw();
    head.querySelectorAll('button')[[...head.children].findIndex((each) => each.getAttribute('aria-sort') !== 'none')].focus();
    announce(`Sorted by ${column.name}, ${state.down ? 'descending' : 'ascending'}`);
  };
  const groups = data.tables.length < 2 ? null : el('label', {}, 'Group by ', el('select', { on: { change: (event) => {
    state.table = data.tables[event.target.selectedIndex];
    draw();
  } } }, data.tables.map((table) => el('option', {}, table.by))));
  draw();
  return el('div', {}, groups && el('div', { class: 'tools' }, groups),
    el('div', { class: 'wide', tabindex: 0, role: 'region', 'aria-label': 'Operators' }, el('table', { class: 'operators' }, el('thead', {}, head), body, foot)), more);
}
