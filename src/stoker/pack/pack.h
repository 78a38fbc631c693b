// Packs any readable data set into a data set of another format. Order, keys, labels, pixels and the fields that the
// data set was opened with are kept. Works with many threads, resumes after a kill, and verifies the result by reading
// it back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/pack/transcode.h"

namespace stoker {

struct PackProgress {
    // "check": parts of an earlier run; "pack"; "write": the final file, for targets that spool samples first; "verify"
    const char* phase = "";
    std::int64_t done = 0;  // samples
    std::int64_t total = 0;
    std::int64_t bytes = 0;  // read from the data set in this run, or verified
    std::int64_t kept = 0;   // samples in finished parts, at which a resumed packing starts
};

// A share of the samples: number `index`, from 0, of `count` that are equally large.
struct PackPart {
    std::int64_t index = 0;
    std::int64_t count = 1;  // 1: all samples

    // The samples of this share, [first, second), of `size`. Throws InvalidArgument for an impossible share.
    std::pair<std::int64_t, std::int64_t> of(std::int64_t size) const;
};

struct PackOptions {
    FieldNames fields = {};  // with which the data set was opened; part of the plan that a resumed packing must match
    TranscodeOptions transcode = {};
    std::uint64_t shard_size = std::uint64_t{256} << 20;  // bytes
    int workers = 1;
    bool skip_bad = false;  // leave bad samples out and list them; otherwise the first one ends the packing
    PackPart part = {};     // with more than one part, only this one is packed, into part_path(); see stk_parts.h
    // Called often, on the caller's thread. An exception from it ends the packing, which can then be resumed.
    std::function<void(const PackProgress&)> progress = {};
};

// A sample that was left out.
struct SkippedSample {
    std::string key;
    std::string reason;
};

// Counts over the packed samples. Each part stores its own, so that a resumed packing reports on the whole data set.
struct PackStats {
    std::int64_t samples_in = 0;               // read from the data set, including skipped ones
    std::int64_t bytes_in = 0;                 // of the samples as the data set gave them
    std::map<std::string, std::int64_t> kept;  // images that are not in the requested codec, by reason
    std::int64_t exif_lost = 0;                // images encoded again without their EXIF orientation
    std::vector<SkippedSample> skipped;
};

struct PackResult : PackStats {
    std::string format;  // "stk", ...
    std::string path;    // by which the data set is opened
    std::int64_t samples = 0;
    std::int64_t bytes_out = 0;  // of all files
    std::int64_t shards = 0;
    std::map<std::string, std::int64_t> codecs;  // samples by codec
    std::vector<std::string> fields;             // names of those other than image and label
    std::int64_t resumed_samples = 0;            // packed by an earlier run
    bool nothing_to_do = false;                  // the data set was complete before
};

// The path of a part of the data set at `target`: "x.part-3-of-8.stk" next to "x.stk".
std::filesystem::path part_path(const std::filesystem::path& target, const PackPart& part);

// The ending of `target` selects the format: x.stk, x.tar, x-{000000..}.tar, x.lmdb, x.h5, x.npz. Throws DataError
// (path, key and index) for a bad sample or one that the format cannot store, IoError, and InvalidArgument for another
// ending, a target that is something else, fields that the format cannot hold, a part of another format than stk or one
// without samples, or an unfinished packing of another data set or with other options.
PackResult pack(const Dataset& dataset, const std::filesystem::path& target, const PackOptions& options);

}  // namespace stoker
