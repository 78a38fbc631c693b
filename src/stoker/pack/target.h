// Where a packing goes: one class for each format that can be written, chosen by the name's ending. A target takes
// samples in order, closes them into parts that survive a kill, reads back what it wrote, and only then lets the data
// set appear under its name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "stoker/formats/stk/stk_value.h"
#include "stoker/pack/recode.h"

namespace stoker {

struct PackedSample {
    std::string_view key;
    StkImage image;
    std::int64_t label = -1;
};

// Samples and bytes so far; called on the caller's thread.
using TargetProgress = std::function<void(std::int64_t samples, std::int64_t bytes)>;

class PackTarget {
  public:
    PackTarget() = default;
    PackTarget(const PackTarget&) = delete;
    PackTarget& operator=(const PackTarget&) = delete;
    virtual ~PackTarget() = default;

    // Closed parts, those of an earlier run first, each with its samples and the notes it was closed with.
    virtual std::size_t parts() const = 0;
    virtual std::int64_t part_samples(std::size_t part) const = 0;
    virtual std::string part_notes(std::size_t part) const = 0;

    // Reads a part of an earlier run. Throws DataError where it is not what was written, or no longer there, IoError
    // where that cannot be told.
    virtual void check_part(std::size_t part, const TargetProgress& progress) = 0;
    // Drops all parts but the first `count`. Before the first `add` only.
    virtual void keep(std::size_t count) = 0;

    virtual std::int64_t samples() const = 0;  // of all parts and of the open one
    // Whether the sample should come into a new part.
    virtual bool closes_part(const PackedSample& sample) const = 0;

    // What the format cannot hold, by a DataError: a key, which is known before any sample is; a sample, behind those
    // that were added. Both come before `add`.
    virtual void check_key(std::string_view /*key*/) const {}
    virtual void check(const PackedSample& /*sample*/) const {}
    virtual bool needs_different_keys() const { return false; }

    // Before the first `check`, after the last `keep`.
    virtual void begin() {}
    virtual void add(const PackedSample& sample) = 0;
    // Brings everything added so far to the disk, with notes (a JSON text).
    virtual void close_part(const std::string& notes) = 0;

    // The three steps of the end; no part is open. `origin`: a JSON text that stays with the data set. seal gives the
    // data set its last form, under a temporary name; verify reads back what was not read by check_part, at
    // least; publish gives it its name.
    virtual void seal(const std::string& origin, const TargetProgress& progress) = 0;
    virtual void verify(const TargetProgress& progress) = 0;
    virtual void publish() = 0;
};

struct TargetOptions {
    std::string origin;  // a JSON text: {"plan": ...}; what an unfinished data set must have been begun with
    std::span<const std::string> classes;
    std::int64_t samples = 0;  // of the source
    std::uint64_t shard_size = 0;
    int workers = 1;
};

// What a finished data set is.
struct PackedFigures {
    std::string path;  // as it is opened
    std::int64_t samples = 0;
    std::int64_t bytes = 0;
    std::int64_t shards = 1;
    std::map<std::string, std::int64_t> codecs;
};

struct TargetFormat {
    std::string_view name;    // "stk"
    std::string_view ending;  // of the target's name: ".stk"
    bool shards = false;      // shard_size decides what is in each file, and is part of the plan
    // What images become where nothing is asked for: what the programs that read the format know.
    PackCodec codec = PackCodec::jpeg;
    // The origin of a finished or an unfinished data set of that name; empty where there is none.
    std::optional<std::string> (*finished)(const std::filesystem::path& path) = nullptr;
    std::optional<std::string> (*begun)(const std::filesystem::path& path) = nullptr;
    // Begins a data set, or goes on with an unfinished one, and locks it against a second writer. Throws IoError
    // where something else has the name.
    std::unique_ptr<PackTarget> (*open)(const std::filesystem::path& path, const TargetOptions& options) = nullptr;
    PackedFigures (*figures)(const std::filesystem::path& path) = nullptr;
};

// Throws InvalidArgument, listing what can be written, for a name with none of the endings.
const TargetFormat& target_format(const std::filesystem::path& path);

}  // namespace stoker
