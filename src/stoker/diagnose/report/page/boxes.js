// ---- Rectangles in rows over a common axis: the timeline and the flame graph. ----

// What a name belongs to, for its colour.
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

// options: {label, whole, axis, rows: [{title?, boxes: [{x, w, name}]}], describe(box), nearest, noun}. Boxes of a row are by
// x. `axis`: with ticks of time. `nearest`: up and down also reach boxes that lie to the side.
function boxesChart(options) {
  const rows = options.rows.map((row, number) => ({ ...row, boxes: row.boxes.map((box, index) => ({ ...box, row: number, index, kind: kindOf(box.name) })) }));
  const all = rows.flatMap((row) => row.boxes);
  const hint = 'Arrow keys move, Enter zooms in, Escape zooms out. Or click.';
  const readout = el('p', { class: 'readout' }, hint);
  const host = el('div', { class: 'chart scroll' });
  const found = el('span', { class: 'found', role: 'status' });
  const state = { from: 0, to: options.whole, back: [], box: null, query: '', width: 0 };

  const draw = () => {
    const focused = host.contains(document.activeElement);
    host.replaceChildren(drawBoxes(state, rows, options, on));
    if (focused) host.firstChild.focus({ preventScroll: true });
  };
  const view = (from, to, remember = true) => {
    if (remember) state.back.push([state.from, state.to]);
    const wide = Math.min(Math.max(to - from, options.whole / 1e6), options.whole);
    state.from = Math.min(Math.max(from, 0), options.whole - wide);
    state.to = state.from + wide;
    draw();
  };
  const select = (box, speak) => {
    if (!box) return;
    state.box = box;
    readout.textContent = options.describe(box);
    if (speak) announce(readout.textContent);
    if (speak && (box.x + box.w <= state.from || box.x >= state.to)) {
      const wide = state.to - state.from;
      view(box.x + box.w / 2 - wide / 2, box.x + box.w / 2 + wide / 2, false);
    }
    host.querySelector('.selected')?.classList.remove('selected');
    const drawn = host.querySelector(`[data-row="${box.row}"][data-index="${box.index}"]`);
    drawn?.classList.add('selected');
    if (speak) drawn?.scrollIntoView({ block: 'nearest' });
  };
  const zoomTo = (box) => box && view(box.x, box.x + box.w);
  const zoomBy = (factor) => {
    const middle = state.box && state.box.x < state.to && state.box.x + state.box.w > state.from
      ? (Math.max(state.box.x, state.from) + Math.min(state.box.x + state.box.w, state.to)) / 2 : (state.from + state.to) / 2;
    const half = ((state.to - state.from) * factor) / 2;
    view(middle - half, middle + half);
  };
  const leave = () => {
    if (state.back.length) view(...state.back.pop(), false);
    announce(`${options.label}: ${state.to - state.from >= options.whole ? 'whole' : `zoomed to ${percent(state.to - state.from, options.whole)}`}`);
  };
  const vertical = (by) => {
    const { row, x, w } = state.box;
    const middle = x + w / 2;
    for (let at = row + by; at >= 0 && at < rows.length; at += by) {
      const over = rows[at].boxes.filter((box) => box.x < x + w && box.x + box.w > x);
      if (over.length) return over.reduce((best, box) => (box.w > best.w ? box : best));
      if (!options.nearest) return null;
      const off = (box) => Math.abs(box.x + box.w / 2 - middle);
      if (rows[at].boxes.length) return rows[at].boxes.reduce((best, box) => (off(box) < off(best) ? box : best));
    }
    return null;
  };
  const keys = {
    ArrowLeft: () => select(rows[state.box.row].boxes[state.box.index - 1], true),
    ArrowRight: () => select(rows[state.box.row].boxes[state.box.index + 1], true),
    ArrowUp: () => select(vertical(-1), true),
    ArrowDown: () => select(vertical(1), true),
    Home: () => select(rows[state.box.row].boxes[0], true),
    End: () => select(rows[state.box.row].boxes.at(-1), true),
    Enter: () => zoomTo(state.box),
    '+': () => zoomBy(0.5),
    '-': () => zoomBy(2),
    Escape: leave,
  };
  const boxAt = (event) => (event.target.dataset.row === undefined ? null : rows[event.target.dataset.row].boxes[event.target.dataset.index]);
  const on = {
    keydown: (event) => {
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      if (!state.box && event.key.startsWith('Arrow')) select(all[0], true);
      else if (state.box || event.key === 'Escape' || event.key === '+' || event.key === '-') keys[event.key]();
    },
    pointermove: (event) => select(boxAt(event)),
    click: (event) => {
      const box = boxAt(event);
      select(box);
      zoomTo(box);
    },
  };
  const search = (event) => {
    state.query = event.target.value.toLowerCase();
    const matches = state.query ? all.filter((box) => box.name.toLowerCase().includes(state.query)) : [];
    found.textContent = state.query ? `${count(matches.length, options.noun)}, ${percent(covered(matches), options.whole)} of the time` : '';
    draw();
  };
  redrawn(host, (width) => {
    state.width = width;
    draw();
  });
  const button = (label, title, run) => el('button', { type: 'button', 'aria-label': title, title, on: { click: run } }, label);
  return el('div', {},
    el('div', { class: 'tools' },
      el('input', { type: 'search', placeholder: 'Search names', 'aria-label': `Search the ${options.label}`, on: { input: search } }), found,
      el('span', { class: 'buttons' }, button('+', 'Zoom in', () => zoomBy(0.5)), button('−', 'Zoom out', () => zoomBy(2)),
        button('Whole', 'Show the whole', () => { state.back = []; view(0, options.whole, false); }))),
    host, readout, kindLegend(all));
}

function kindLegend(boxes) {
  const kinds = new Map();  // colour -> names
  for (const { kind: [name, label] } of boxes) kinds.set(name, (kinds.get(name) || new Set()).add(label));
  return kinds.size < 2 ? null : el('ul', { class: 'legend' }, [...kinds].map(([name, labels]) => el('li', {}, swatch(name), ' ', [...labels].join(', '))));
}

function drawBoxes(state, rows, options, on) {
  const { from, to, width } = state;
  const high = 18;
  const scale = width / (to - from);
  let y = options.axis ? 20 : 0;
  const svg = shape('svg', { class: 'boxes', role: 'application', tabindex: 0, 'aria-label': `${options.label}. Arrow keys move, Enter zooms in, Escape zooms out.`, on });
  const grid = shape('g', {});
  svg.append(grid);
  for (const row of rows) {
    if (row.title) {
      svg.append(shape('text', { class: 'lane', x: 2, y: y + 15 }, fitted(row.title, width)));
      y += 20;
    }
    let drawn = -1;  // boxes that end in the same pixel as the last one are not drawn
    for (const box of row.boxes) {
      const left = Math.max(0, (box.x - from) * scale);
      const wide = Math.min(width, (box.x + box.w - from) * scale) - left;
      if (wide < 0 || left >= width || left + wide < drawn + 0.5) continue;
      drawn = Math.max(left + wide, left + 0.5);
      const match = state.query ? (box.name.toLowerCase().includes(state.query) ? ' match' : ' dim') : '';
      const chosen = box === state.box ? ' selected' : '';
      svg.append(shape('rect', { class: `box ${colour(box.kind[0])}${match}${chosen}${wide < 4 ? ' thin' : ''}`, x: left, y, width: Math.max(0.5, wide - 0.5), height: high - 1.5,
        'data-row': box.row, 'data-index': box.index }));
      const text = fitted(box.name, wide);
      if (text) svg.append(shape('text', { class: `name${match}`, x: left + 4, y: y + 12.5 }, text));
    }
    y += high;
  }
  if (options.axis) {
    for (const tick of ticks(from, to, Math.max(2, width / 130))) {
      const x = (tick - from) * scale;
      grid.append(shape('line', { class: 'grid', x1: x, x2: x, y1: 18, y2: y }),
        shape('text', { class: `tick ${x < 30 ? '' : x > width - 30 ? 'end' : 'middle'}`, x, y: 12 }, tick === 0 ? '0' : duration(tick)));
    }
  }
  svg.setAttribute('viewBox', `0 0 ${width} ${y}`);
  return svg;
}

function timelineChart(data) {
  const rows = data.rows.map((row) => {
    const boxes = [];
    for (let i = 0; i < row.boxes.length; i += 4) {
      const [name, x, w, busy] = row.boxes.slice(i, i + 4);
      boxes.push({ x, w, name: data.names[name], busy });
    }
    return { title: row.depth === 0 ? data.names[row.lane] : null, lane: data.names[row.lane], boxes };
  });
  return boxesChart({ label: 'timeline', noun: 'span', whole: data.us || 1, axis: true, nearest: true, rows,
    describe: (box) => `${box.name}: ${box.busy ? `${duration(box.busy)} within ` : ''}${duration(box.w)}, from ${duration(box.x)} (${rows[box.row].lane})` });
}

function flameChart(data) {
  const rows = [];
  const next = [0];  // where the next frame of each depth begins
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
