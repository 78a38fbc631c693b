// From any readable source to an stk data set: order, keys, labels and pixels stay. Streams with many
// threads, survives being killed, and reads back what it wrote before it says that it is done.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "stoker/formats/source.h"
#include "stoker/pack/recode.h"

namespace stoker {

struct PackProgress {
    const char* phase = "";  // "check": shards of an earlier run, "pack", "verify": what was written
    std::int64_t done = 0;   // samples
    std::int64_t total = 0;
    std::int64_t bytes = 0;  // read from the source so far in this run, or verified
};

struct PackOptions {
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
    std::int64_t samples = 0;
    std::int64_t bytes_in = 0;   // of the samples as the source gave them
    std::int64_t bytes_out = 0;  // of all files
    std::int64_t shards = 0;
    std::map<std::string, std::int64_t> codecs;
    std::map<std::string, std::int64_t> kept;  // reason: images that are not in the codec that was asked for
    std::int64_t exif_lost = 0;                // images re-encoded without their EXIF orientation
    std::vector<SkippedSample> skipped;        // bad samples
    std::int64_t resumed_samples = 0;          // found finished from an earlier run
    bool nothing_to_do = false;                // the data set was complete
};

// Throws DataError (path, key and index of a bad sample), IoError, InvalidArgument where `directory` holds
// something else or an unfinished packing of another source or other options.
PackResult pack(const Source& source, const std::filesystem::path& directory, const PackOptions& options);

}  // namespace stoker
