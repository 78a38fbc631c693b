// From any readable dataset to a data set of another format: order, keys, labels and pixels stay. Streams with many
// threads, survives being killed, and reads back what it wrote before it says that it is done.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/formats/open.h"
#include "stoker/pack/recode.h"

namespace stoker {

struct PackProgress {
    // "check": parts of an earlier run, "pack", "write": the last form, where it is another, "verify": what was written
    const char* phase = "";
    std::int64_t done = 0;  // samples
    std::int64_t total = 0;
    std::int64_t bytes = 0;  // read from the dataset so far in this run, or verified
};

struct PackOptions {
    FieldNames fields = {};  // that the dataset was opened with: a packing of other fields is another one
    RecodeOptions recode = {};
    std::uint64_t shard_size = std::uint64_t{256} << 20;
    int workers = 1;
    bool skip_bad = false;  // leave bad samples out, and list them; else the first one ends the packing
    // Called on the caller's thread, often. What it throws ends the packing, which can then be resumed.
    std::function<void(const PackProgress&)> progress = {};
};

// A sample that was left out.
struct SkippedSample {
    std::string key;
    std::string reason;
};

struct PackResult {
    std::string format;  // "stk", ...
    std::string path;    // as the data set is opened
    std::int64_t samples = 0;
    std::int64_t bytes_in = 0;   // of the samples as the dataset gave them
    std::int64_t bytes_out = 0;  // of all files
    std::int64_t shards = 0;
    std::map<std::string, std::int64_t> codecs;
    std::map<std::string, std::int64_t> kept;  // reason: images that are not in the codec that was asked for
    std::int64_t exif_lost = 0;                // images re-encoded without their EXIF orientation
    std::vector<SkippedSample> skipped;        // bad samples
    std::int64_t resumed_samples = 0;          // found finished from an earlier run
    bool nothing_to_do = false;                // the data set was complete
};

// `target` says by its ending what is written: x.stk, x.tar, x-{000000..}.tar, x.lmdb, x.h5, x.npz. Throws DataError
// (path, key and index of a bad sample; a sample that the format cannot hold), IoError, InvalidArgument where `target`
// is something else or an unfinished packing of another dataset or other options, or has another ending.
PackResult pack(const Dataset& dataset, const std::filesystem::path& target, const PackOptions& options);

}  // namespace stoker
