// ---- What charts share: axes, fills, and reading values by mouse and keyboard. ----

// About `most` round values from `from` to `to`.
function ticks(from, to, most) {
  const rough = (to - from) / Math.max(1, most);
  if (!(rough > 0)) return [from];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const values = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-6; i += 1) values.push(i * step);
  return values;
}
const leftTick = (left, right, y, text) => [shape('path.grid', { d: `M${left} ${y}H${right}` }),
  shape('text.tick.end', { x: left - 6, y: y + 4 }, text)];
function bottomTick(x, y, width, text) {
  const side = x > width - 30 ? 'end' : x < 30 ? 'start' : 'middle';
  return shape(`text.tick.${side}`, { x: Math.min(x, width - 1), y }, text);
}

const COLOURS = new Set(['wait', 'copy', 'forward', 'backward', 'optimizer', 'step', 'communication', 'sync', 'evaluate',
  'checkpoint', 'unmeasured', 'read', 'entropy', 'pixels', 'augment', 'blocked', 'compute', 'non-compute', 'idle']);
const colour = (name) => `c-${COLOURS.has(name) ? name : 'other'}`;

// Colours that are close to others have a second mark: lines over the rectangle, [across, upwards].
const TEXTURES = { unmeasured: [1, 1], blocked: [1, 1], idle: [1, 1], sync: [1, 0], checkpoint: [0, 1] };

// A rectangle in the colour of a phase or stage, with its texture.
function filled(name, box) {
  const rect = shape(`rect.${colour(name)}`, box);
  const { x, y, width, height } = box;
  if (!TEXTURES[name] || width < 1 || height < 1) return [rect];
  const [across, upwards] = TEXTURES[name];
  let path = '';
  if (across && upwards) {
    for (let at = 4 - height; at < width; at += 5) {
      const [from, to] = [Math.max(at, 0), Math.min(at + height, width)];
      path += `M${x + from} ${y + height - (from - at)}L${x + to} ${y + height - (to - at)}`;
    }
  } else if (across) for (let at = 3; at < height; at += 4) path += `M${x} ${y + at}h${width}`;
  else for (let at = 3; at < width; at += 4) path += `M${x + at} ${y}v${height}`;
  return [rect, shape('path.texture', { d: path })];
}
const swatch = (name) => shape('svg.swatch', { viewBox: '0 0 14 14', 'aria-hidden': 'true' },
  filled(name, { x: 0, y: 0, width: 14, height: 14 }));

// Runs `draw(width)` now and whenever the width of `host` changes.
function redrawn(host, draw) {
  let width = 0;
  new ResizeObserver((entries) => {
    const now = Math.floor(entries[0].contentRect.width);
    if (now > 0 && now !== width) {
      width = now;
      draw(width);
    }
  }).observe(host);
}

// A chart with values to step through: to a screen reader it is a slider whose value is the text. `size()` is the number
// of values, `text(i)` the i-th one, and `mark(picture, i)` shows which it is (-1: none).
function chartReader(hint, size, text, mark) {
  const reader = { host: el('div.chart'), readout: el('p.readout', hint), index: -1, picture: null };
  reader.select = (index) => {
    reader.index = index;
    reader.readout.textContent = index < 0 ? hint : text(index);
    reader.picture.setAttribute('aria-valuenow', index + 1);
    reader.picture.setAttribute('aria-valuetext', reader.readout.textContent);
    mark(reader.picture, index);
  };
  const keydown = (event) => {
    const last = size() - 1;
    const [left, right] = [Math.max(0, reader.index - 1), Math.min(last, reader.index + 1)];
    const keys = { ArrowLeft: left, ArrowRight: right, Home: 0, End: last, Escape: -1 };
    if (!(event.key in keys)) return;
    event.preventDefault();
    reader.select(keys[event.key]);
  };
  const on = { keydown, pointerleave: () => reader.select(-1) };
  reader.svg = (width, height, label) => shape('svg', { viewBox: `0 0 ${width} ${height}`, role: 'slider', tabindex: 0,
    'aria-label': label, 'aria-valuemin': 0, 'aria-valuemax': size(), on });
  reader.show = (picture) => {
    reader.picture = picture;
    reader.host.replaceChildren(picture);
    reader.select(-1);
  };
  return reader;
}
