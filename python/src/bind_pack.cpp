// Packing a data set into another format, with progress.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>

#include "python/src/bindings.h"
#include "stoker/base/cpu_cores.h"
#include "stoker/pack/pack.h"

namespace stoker::python {
namespace {

using Clock = std::chrono::steady_clock;

// Calls the Python function (phase, done, total, bytes) ten times a second, and at the end of each phase. Signals are
// looked for as often.
// `progress` outlives the function, whose copies change no count of references: they are made without the lock.
std::function<void(const PackProgress&)> report_to(const nb::object& progress) {
    return [&progress, last = Clock::time_point()](const PackProgress& at) mutable {
        constexpr std::chrono::milliseconds kPause{100};
        const auto now = Clock::now();
        if (now - last < kPause && at.done != at.total) {
            return;
        }
        last = now;
        const nb::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals() != 0) {
            throw nb::python_error();
        }
        if (!progress.is_none()) {
            progress(at.phase, at.done, at.total, at.bytes);
        }
    };
}

nb::dict as_dict(const PackResult& result) {
    nb::list skipped;
    for (const SkippedSample& sample : result.skipped) {
        skipped.append(nb::make_tuple(text(sample.key), text(sample.reason)));
    }
    nb::dict dict;
    dict["path"] = result.path;
    dict["format"] = result.format;
    dict["samples"] = result.samples;
    dict["bytes_in"] = result.bytes_in;
    dict["bytes_out"] = result.bytes_out;
    dict["shards"] = result.shards;
    dict["codecs"] = nb::cast(result.codecs);
    dict["fields"] = nb::cast(result.fields);
    dict["kept"] = nb::cast(result.kept);
    dict["exif_lost"] = result.exif_lost;
    dict["skipped"] = skipped;
    dict["resumed_samples"] = result.resumed_samples;
    dict["nothing_to_do"] = result.nothing_to_do;
    return dict;
}

nb::dict run_pack(const OpenData& data, const std::string& target, const std::optional<std::string>& codec,
                  int resize_shorter, int quality, bool first_frame, std::int64_t shard_size,
                  std::optional<int> workers, bool skip_bad, const nb::object& progress) {
    PackOptions options{.fields = data.names,
                        .transcode = {.codec = codec ? std::optional(parse_pack_codec(*codec)) : std::nullopt,
                                      .resize_shorter = resize_shorter,
                                      .quality = quality,
                                      .first_frame = first_frame},
                        .shard_size = static_cast<std::uint64_t>(shard_size),
                        .workers = workers.value_or(cpu_cores().usable),
                        .skip_bad = skip_bad,
                        .progress = report_to(progress)};
    PackResult result;
    {
        const nb::gil_scoped_release release;
        result = pack(*data.dataset, target, options);
    }
    return as_dict(result);
}

}  // namespace

void bind_pack(nb::module_& module) {
    module.def("pack", &run_pack, nb::arg("data"), nb::arg("target"), nb::arg("codec"), nb::arg("resize_shorter"),
               nb::arg("quality"), nb::arg("first_frame"), nb::arg("shard_size"), nb::arg("workers"),
               nb::arg("skip_bad"), nb::arg("progress").none());
}

}  // namespace stoker::python
