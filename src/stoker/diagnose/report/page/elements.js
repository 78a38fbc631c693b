// ---- Elements and numbers. Text enters the page here only, as text nodes. ----

const SVG = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'on') for (const [event, run] of Object.entries(value)) node.addEventListener(event, run);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined).map((child) => (child instanceof Node ? child : String(child))));
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const shape = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// Three significant digits, as in the text that the program makes.
function digits(value) {
  const size = Math.abs(value);
  if (size >= 999.5) return Math.round(value).toLocaleString('en-US');
  if (size > 0 && size < 0.01) return value.toPrecision(2);
  return String(Number(value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2)));
}
function duration(us) {
  const size = Math.abs(us);
  if (size === 0) return '0 s';
  if (size < 0.9995) return digits(us * 1e3) + ' ns';
  if (size < 999.5) return digits(us) + ' µs';
  if (size < 999.5e3) return digits(us / 1e3) + ' ms';
  if (size < 99.5e6) return digits(us / 1e6) + ' s';
  const seconds = Math.round(us / 1e6);
  if (seconds < 5940) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
}
function scaled(value, units, base) {
  let unit = 0;
  let size = value;
  while (Math.abs(size) >= base && unit < units.length - 1) {
    size /= base;
    unit += 1;
  }
  return `${digits(size)} ${units[unit]}`.trim();
}
const bytes = (value) => scaled(value, ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'], 1024);
const flops = (value) => scaled(value, ['FLOP', 'kFLOP', 'MFLOP', 'GFLOP', 'TFLOP', 'PFLOP'], 1000);
const percent = (part, whole) => `${digits(whole > 0 ? (100 * part) / whole : 0)} %`;
const tenths = (value) => `${(value / 10).toFixed(1)} %`;
const count = (number, noun) => `${number.toLocaleString('en-US')} ${noun}${number === 1 ? '' : 's'}`;

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

const COLOURS = new Set(['wait', 'copy', 'forward', 'backward', 'optimizer', 'step', 'communication', 'sync', 'evaluate',
  'checkpoint', 'unmeasured', 'read', 'entropy', 'pixels', 'augment', 'blocked', 'compute', 'non-compute', 'idle']);
const colour = (name) => `c-${COLOURS.has(name) ? name : 'other'}`;
const swatch = (name) => shape('svg', { class: 'swatch', viewBox: '0 0 14 14', 'aria-hidden': 'true' },
  shape('rect', { class: colour(name), width: 14, height: 14, rx: 2 }), textures(name, 0, 0, 14, 14));

// A second mark beside colour for the phases whose colours are close to others: lines drawn over the rectangle.
function textures(name, x, y, width, height) {
  const lines = { unmeasured: [1, 1], blocked: [1, 1], idle: [1, 1], sync: [1, 0], checkpoint: [0, 1] }[name];
  if (!lines || width < 1 || height < 1) return null;
  const [dx, dy] = lines;
  let path = '';
  if (dx && dy) {
    for (let at = -height + 4; at < width; at += 5) {
      const left = Math.max(at, 0);
      const right = Math.min(at + height, width);
      path += `M${x + left} ${y + height - (left - at)}L${x + right} ${y + height - (right - at)}`;
    }
  } else if (dx) for (let at = 3; at < height; at += 4) path += `M${x} ${y + at}h${width}`;
  else for (let at = 3; at < width; at += 4) path += `M${x + at} ${y}v${height}`;
  return shape('path', { class: 'texture', d: path });
}

// Copies `text`; where the browser refuses, it is selected, so that Ctrl-C copies it.
function copyButton(label, text, source) {
  const button = el('button', { class: 'copy', type: 'button' }, label);
  const say = (result) => {
    button.textContent = result;
    announce(result);
    setTimeout(() => { button.textContent = label; }, 2000);
  };
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text);
      say('Copied');
    } catch {
      const range = document.createRange();
      range.selectNodeContents(source);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      say(document.execCommand('copy') ? 'Copied' : 'Selected: press Ctrl-C');
    }
  });
  return button;
}

const live = el('p', { class: 'hidden', role: 'status' });
const announce = (text) => { live.textContent = text; };

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
