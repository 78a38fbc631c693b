// ---- Elements and numbers. Text enters the page here only, as text nodes. ----

const SVG = 'http://www.w3.org/2000/svg';

// el('p.note', {id: 'x', on: {click: run}}, 'text', child, [children]); the attributes may be left out.
function made(node, classes, parts) {
  const given = parts[0] !== undefined && parts[0] !== null && Object.getPrototypeOf(parts[0]) === Object.prototype;
  const { on, ...attributes } = given ? parts.shift() : {};
  if (classes.length) node.setAttribute('class', classes.join(' '));
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? '' : value);
  }
  for (const [event, run] of Object.entries(on || {})) node.addEventListener(event, run);
  node.append(...parts.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}
function el(tag, ...parts) {
  const [name, ...classes] = tag.split('.');
  return made(document.createElement(name), classes, parts);
}
function shape(tag, ...parts) {
  const [name, ...classes] = tag.split('.');
  return made(document.createElementNS(SVG, name), classes, parts);
}

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
const count = (number, noun, nouns = `${noun}s`) => `${number.toLocaleString('en-US')} ${number === 1 ? noun : nouns}`;

// Copies `text`; if the browser refuses, it is selected, so that Ctrl-C copies it.
function copyButton(label, text, source) {
  const button = el('button.copy', { type: 'button' }, label);
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

const live = el('p.hidden', { role: 'status' });
const announce = (text) => { live.textContent = text; };
