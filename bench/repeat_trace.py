# Makes a large trace of a small one: its events again and again, each time later and with new correlations, until the
# file has the wanted size. For the speed and the memory of `stoker diagnose`:
#
#   python bench/repeat_trace.py trace.json.gz big.json --bytes 1e9
#   /usr/bin/time -v stoker diagnose big.json --json > /dev/null
import argparse
import gzip
import json
import re


def shifted(event, time, number, steps):
    event = dict(event)
    if "ts" in event:
        event["ts"] = round(event["ts"] + time, 3)
    if isinstance(event.get("args"), dict) and "correlation" in event["args"]:
        event["args"] = {**event["args"], "correlation": event["args"]["correlation"] + number}
    match = re.fullmatch(r"ProfilerStep#(\d+)", str(event.get("name", "")))
    if match:
        event["name"] = f"ProfilerStep#{int(match.group(1)) + steps}"
    return event


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--bytes", type=float, default=1e9)
    options = parser.parse_args()
    opened = gzip.open if options.source.endswith(".gz") else open
    with opened(options.source, "rt") as file:
        trace = json.load(file)
    events = [event for event in trace.pop("traceEvents") if event.get("cat") != "Trace"]
    timed = [event for event in events if event.get("ph") == "X"]
    span = max(event["ts"] + event["dur"] for event in timed) - min(event["ts"] for event in timed) + 1000
    correlations = 1 + max((event.get("args", {}).get("correlation", 0) for event in timed), default=0)
    steps = len({event["name"] for event in timed if event["name"].startswith("ProfilerStep#")})
    head = json.dumps(trace)[:-1]
    opened = gzip.open if options.target.endswith(".gz") else open
    with opened(options.target, "wt") as file:
        size = file.write(head + (", " if trace else "") + '"traceEvents": [\n')
        turn = 0
        while size < options.bytes:
            for event in events:
                text = json.dumps(shifted(event, turn * span, turn * correlations, turn * steps), indent=1)
                size += file.write(("" if turn == 0 and event is events[0] else ",\n") + text)
            turn += 1
        file.write("\n]}\n")
    print(f"{options.target}: {turn} times {len(events)} events")


if __name__ == "__main__":
    main()
