// ---- Rectangles in rows over a common axis: the timeline and the flame graph. ----

// The group of a name, for its colour.
const KINDS = [
  [/^(enumerate\(DataLoader|stoker::loader|DataLoader|next\b)/, 'wait', 'loader'],
  [/(nccl|gloo|all_?reduce|all_?gather|broadcast)/i, 'communication', 'communication'],
  [/(Backward\d*$|^autograd::|\bbackward\b)/, 'backward', 'backward'],
  [/^(Optimizer|aten::_f(used|oreach)_)/, 'optimizer', 'optimizer'],
  [/^(cuda|cu)[A-Z]|^Mem(cpy|set)\b/, 'sync', 'CUDA calls and copies'],
  [/^(aten|torch|c10|prims)::/, 'forward', 'operators'],
  [/\.py\b|<module>|<lambda>/, 'evaluate', 'Python'],
];
function kindOf(name) {
  if (COLOURS.has(name)) return [name, name];
  const kind = KINDS.find(([pattern]) => pattern.test(name));
  return kind ? [kind[1], kind[2]] : ['other', 'other'];
}

function fitted(name, width) {
  let room = Math.floor((width - 6) / 6.7);
  if (room < 3) return '';
  let out = '';
  for (const letter of name) {
    room -= letter.codePointAt(0) > 0x2e7f ? 2 : 1;
    if (room < 0) return out.slice(0, -1) + '…';
    out += letter;
  }
  return out;
}

// The length that the intervals of `boxes` cover together.
function covered(boxes) {
  let [sum, end] = [0, -Infinity];
  for (const box of [...boxes].sort((a, b) => a.x - b.x)) {
    sum += Math.max(0, box.x + box.w - Math.max(end, box.x));
    end = Math.max(end, box.x + box.w);
  }
  return sum;
}

// A chart of rectangles that is zoomed, searched and walked through. options: {label, noun, whole, axis, nearest,
// describe(box), rows: [{title?, boxes: [{x, w, name}]}]}: boxes of a row are by x, `whole` is the width of all. `axis`:
// with ticks of time. `nearest`: up and down also reach boxes that lie to the side.
function boxesChart(options) {
  const rows = options.rows.map((row, number) => ({
    ...row, boxes: row.boxes.map((box, index) => ({ ...box, row: number, index, kind: kindOf(box.name) })),
  }));
  const all = rows.flatMap((row) => row.boxes);
  const readout = el('p.readout', 'Arrow keys move, Enter zooms in, Escape zooms out. Or click.');
  const host = el('div.chart.scroll');
  const state = { from: 0, to: options.whole, back: [], box: null, query: '', width: 0 };

  const draw = () => {
    const focused = host.contains(document.activeElement);
    host.replaceChildren(drawBoxes(state, rows, options, { keydown, pointermove: point, click: clicked }));
    if (focused) host.firstChild.focus({ preventScroll: true });
  };
  const view = (from, to, remember = true) => {
    if (remember) state.back.push([state.from, state.to]);
    const wide = Math.min(Math.max(to - from, options.whole / 1e6), options.whole);
    state.from = Math.min(Math.max(from, 0), options.whole - wide);
    state.to = state.from + wide;
    draw();
  };
  const select = (box) => {
    if (!box) return;
    state.box = box;
    readout.textContent = options.describe(box);
    host.querySelector('.selected')?.classList.remove('selected');
    host.querySelector(`[data-row="${box.row}"][data-index="${box.index}"]`)?.classList.add('selected');
  };
  const moveTo = (box) => {
    if (!box) return;
    const half = (state.to - state.from) / 2;
    const middle = box.x + box.w / 2;
    if (box.x + box.w <= state.from || box.x >= state.to) view(middle - half, middle + half, false);
    select(box);
    announce(readout.textContent);
    host.querySelector('.selected')?.scrollIntoView({ block: 'nearest' });
  };
  const zoomTo = (box) => box && view(box.x, box.x + box.w);
  const zoomBy = (factor) => {
    const { from, to, box } = state;
    const inView = box && box.x < to && box.x + box.w > from;
    const middle = inView ? (Math.max(box.x, from) + Math.min(box.x + box.w, to)) / 2 : (from + to) / 2;
    view(middle - ((to - from) * factor) / 2, middle + ((to - from) * factor) / 2);
  };
  const leave = () => {
    if (state.back.length) view(...state.back.pop(), false);
    announce(`${percent(state.to - state.from, options.whole)} of the ${options.label} in view`);
  };
  const keys = {
    ArrowLeft: (box) => moveTo(rows[box.row].boxes[box.index - 1]),
    ArrowRight: (box) => moveTo(rows[box.row].boxes[box.index + 1]),
    ArrowUp: (box) => moveTo(neighbour(rows, box, -1, options.nearest)),
    ArrowDown: (box) => moveTo(neighbour(rows, box, 1, options.nearest)),
    Home: (box) => moveTo(rows[box.row].boxes[0]),
    End: (box) => moveTo(rows[box.row].boxes.at(-1)),
    Enter: zoomTo,
    '+': () => zoomBy(0.5),
    '-': () => zoomBy(2),
    Escape: leave,
  };
  const keydown = (event) => {
    if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (!state.box && event.key !== 'Escape') moveTo(all[0]);
    else keys[event.key](state.box);
  };
  const boxAt = ({ target: { dataset } }) => dataset.row && rows[dataset.row].boxes[dataset.index];
  const point = (event) => select(boxAt(event));
  const clicked = (event) => {
    select(boxAt(event));
    zoomTo(boxAt(event));
  };
  redrawn(host, (width) => {
    state.width = width;
    draw();
  });
  const showAll = () => {
    state.back = [];
    view(0, options.whole, false);
  };
  return el('div', boxTools(options, all, { zoomBy, showAll, search: (query) => { state.query = query; draw(); } }),
    host, readout, kindLegend(all));
}

// The box above (-1) or below (1) `box` that shares most with it.
function neighbour(rows, box, by, nearest) {
  const middle = ({ x, w }) => x + w / 2;
  const best = (boxes, value) => boxes.reduce((found, other) => (value(other) > value(found) ? other : found));
  for (let row = box.row + by; row >= 0 && row < rows.length; row += by) {
    const { boxes } = rows[row];
    const over = boxes.filter(({ x, w }) => x < box.x + box.w && x + w > box.x);
    if (over.length) return best(over, ({ w }) => w);
    if (!nearest) return null;
    if (boxes.length) return best(boxes, (other) => -Math.abs(middle(other) - middle(box)));
  }
  return null;
}

// The line above the chart: search and zoom.
function boxTools(options, all, { zoomBy, showAll, search }) {
  const found = el('span.found', { role: 'status' });
  const input = (event) => {
    const query = event.target.value.toLowerCase();
    const matches = query ? all.filter((box) => box.name.toLowerCase().includes(query)) : [];
    const share = percent(covered(matches), options.whole);
    found.textContent = query ? `${count(matches.length, options.noun)}, ${share} of the time` : '';
    search(query);
  };
  const button = (text, title, click) => el('button', { type: 'button', 'aria-label': title, title, on: { click } }, text);
  const label = `Search the ${options.label}`;
  return el('div.tools',
    el('input', { type: 'search', placeholder: 'Search names', 'aria-label': label, on: { input } }),
    found,
    el('span.buttons', button('+', 'Zoom in', () => zoomBy(0.5)), button('−', 'Zoom out', () => zoomBy(2)),
      button('Whole', 'Show the whole', showAll)));
}

function kindLegend(boxes) {
  const kinds = new Map();  // colour -> names
  for (const { kind: [name, label] } of boxes) kinds.set(name, (kinds.get(name) || new Set()).add(label));
  const items = [...kinds].map(([name, labels]) => el('li', swatch(name), ' ', [...labels].join(', ')));
  return items.length > 1 && el('ul.legend', items);
}

const HIGH = 18;  // of a row

function drawBoxes(state, rows, options, on) {
  const { from, to, width } = state;
  const svg = shape('svg.boxes', { role: 'application', tabindex: 0, on,
    'aria-label': `${options.label}. Arrow keys move, Enter zooms in, Escape zooms out.` });
  const grid = shape('g');
  svg.append(grid);
  let y = options.axis ? 20 : 0;
  for (const row of rows) {
    if (row.title) {
      svg.append(shape('text.lane', { x: 2, y: y + 15 }, fitted(row.title, width)));
      y += 20;
    }
    svg.append(...drawRow(state, row, y, width / (to - from)));
    y += HIGH;
  }
  if (options.axis) {
    for (const tick of ticks(from, to, Math.max(2, width / 130))) {
      const x = ((tick - from) * width) / (to - from);
      const text = tick === 0 ? '0' : duration(tick);
      grid.append(shape('path.grid', { d: `M${x} 18V${y}` }), bottomTick(x, 12, width, text));
    }
  }
  svg.setAttribute('viewBox', `0 0 ${width} ${y}`);
  return svg;
}

function drawRow({ from, width, query, box: chosen }, row, y, scale) {
  const shapes = [];
  let drawn = -1;  // boxes that end in the same pixel as the last one are not drawn
  for (const box of row.boxes) {
    const left = Math.max(0, (box.x - from) * scale);
    const right = Math.min(width, (box.x + box.w - from) * scale);
    if (right < left || left >= width || right < drawn + 0.5) continue;
    drawn = Math.max(right, left + 0.5);
    const wide = right - left;
    const found = !query ? '' : box.name.toLowerCase().includes(query) ? '.match' : '.dim';
    const look = `${found}${box === chosen ? '.selected' : ''}${wide < 4 ? '.thin' : ''}`;
    shapes.push(shape(`rect.box.${colour(box.kind[0])}${look}`, { x: left, y, width: Math.max(0.5, wide - 0.5),
      height: HIGH - 1.5, 'data-row': box.row, 'data-index': box.index }));
    const text = fitted(box.name, wide);
    if (text) shapes.push(shape(`text.name${found}`, { x: left + 4, y: y + 12.5 }, text));
  }
  return shapes;
}

function timelineChart(data) {
  const rows = data.rows.map((row) => {
    const boxes = [];
    for (let i = 0; i < row.boxes.length; i += 4) {
      const [name, x, w, busy] = row.boxes.slice(i, i + 4);
      boxes.push({ x, w, name: data.names[name], busy });
    }
    const lane = data.names[row.lane];
    return { title: row.depth === 0 && lane, lane, boxes };
  });
  const describe = ({ name, busy, x, w, row }) => {
    const within = busy ? `${duration(busy)} within ` : '';
    return `${name}: ${within}${duration(w)}, from ${duration(x)} (${rows[row].lane})`;
  };
  const whole = data.us || 1;
  return boxesChart({ label: 'timeline', noun: 'span', whole, axis: true, nearest: true, rows, describe });
}

function flameChart(data) {
  const rows = [];
  const next = [0];  // the start of the next frame of each depth
  for (let i = 0; i < data.frames.length; i += 3) {
    const [name, depth, w] = data.frames.slice(i, i + 3);
    rows[depth] ??= { boxes: [] };
    rows[depth].boxes.push({ x: next[depth], w, name: data.names[name] });
    next[depth + 1] = next[depth];
    next[depth] += w;
  }
  return boxesChart({ label: 'flame graph', noun: 'frame', whole: next[0] || 1, rows,
    describe: (box) => `${box.name}: ${duration(box.w)}, ${percent(box.w, next[0])} of all` });
}
