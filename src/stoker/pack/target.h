// Output of a packing: one class per writable format, selected by the name's ending. A target takes samples in order,
// groups them into parts that survive a kill, verifies what it wrote, and then publishes the data set under its name.
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

#include "stoker/formats/stk/stk_schema.h"
#include "stoker/pack/transcode.h"

namespace stoker {

struct PackedSample {
    std::string_view key;
    StkImage image;  // without bytes if TargetOptions::images is false
    std::int64_t label = -1;
    std::span<const StkValue> fields = {};  // of TargetOptions::fields, in order
};

// Takes the samples and bytes processed so far. Called on the caller's thread.
using TargetProgress = std::function<void(std::int64_t samples, std::int64_t bytes)>;

struct TargetPart {
    std::int64_t samples = 0;
    std::string notes;
};

class PackTarget {
  public:
    PackTarget() = default;
    PackTarget(const PackTarget&) = delete;
    PackTarget& operator=(const PackTarget&) = delete;
    virtual ~PackTarget() = default;

    // Reads and checks a closed part; null after the last one. Throws DataError if it is damaged or missing, IoError if
    // it cannot be read.
    virtual std::optional<TargetPart> check_part(std::size_t part, const TargetProgress& progress) = 0;
    // Keeps the first parts of an earlier run, `whole` of them, and opens the files. Call it once, before the first
    // check().
    virtual void begin(std::size_t whole) = 0;

    // Throw DataError for a key or sample that the format cannot store. check_key may be called at any time; check
    // right before add(), since the answer may depend on earlier samples.
    virtual void check_key(std::string_view /*key*/) const {}
    virtual void check(const PackedSample& /*sample*/) const {}

    // Whether the open part should be closed before adding this sample.
    virtual bool closes_part(const PackedSample& sample) const = 0;
    virtual void add(const PackedSample& sample) = 0;
    // Syncs everything added so far to disk and closes the part with notes (a JSON text).
    virtual void close_part(const std::string& notes) = 0;

    // Without an open part: gives the data set its final form, stores `origin`, a JSON text, with it, reads back at
    // least everything that check_part has not read, and gives it its name.
    virtual void finish(const std::string& origin, const TargetProgress& write, const TargetProgress& verify) = 0;
};

struct TargetOptions {
    std::string origin;  // a JSON text, {"plan": ...}; an unfinished data set must have the same
    std::span<const std::string> classes;
    std::span<const Field> fields;  // other than image and label
    bool images = true;             // the samples have one
    std::int64_t samples = 0;       // of the source
    std::uint64_t shard_size = 0;
    int workers = 1;
};

// Summary of a finished data set.
struct PackedSummary {
    std::string path;  // by which it is opened
    std::int64_t samples = 0;
    std::int64_t bytes = 0;
    std::int64_t shards = 1;
    std::map<std::string, std::int64_t> codecs;
};

struct TargetFormat {
    std::string_view name;    // "stk"
    std::string_view ending;  // of the target's name: ".stk"
    bool shards = false;      // the data set is split by shard_size, which is then part of the plan
    bool imageless = false;   // samples need no image
    bool clips = false;       // samples may be clips
    bool sounds = false;      // samples may be sounds
    bool unique_keys = false;
    // Default codec: one that other programs that read the format know.
    PackCodec codec = PackCodec::jpeg;
    // The origin of a finished or unfinished data set of that name; empty if there is none.
    std::optional<std::string> (*finished_origin)(const std::filesystem::path& path) = nullptr;
    std::optional<std::string> (*unfinished_origin)(const std::filesystem::path& path) = nullptr;
    // Starts a data set or resumes an unfinished one, and locks it against a second writer. Throws IoError if something
    // else has the name.
    std::unique_ptr<PackTarget> (*open)(const std::filesystem::path& path, const TargetOptions& options) = nullptr;
    PackedSummary (*summary)(const std::filesystem::path& path) = nullptr;
};

// Throws InvalidArgument, listing what can be written, for a name with none of the endings.
const TargetFormat& target_format(const std::filesystem::path& path);

// The functions of the table of formats; each format's class is in its x_target.cpp.
std::unique_ptr<PackTarget> open_stk_target(const std::filesystem::path& path, const TargetOptions& options);
std::unique_ptr<PackTarget> open_tar_target(const std::filesystem::path& path, const TargetOptions& options);
std::unique_ptr<PackTarget> open_lmdb_target(const std::filesystem::path& path, const TargetOptions& options);
std::unique_ptr<PackTarget> open_hdf5_target(const std::filesystem::path& path, const TargetOptions& options);
std::unique_ptr<PackTarget> open_npz_target(const std::filesystem::path& path, const TargetOptions& options);
std::optional<std::string> finished_stk_origin(const std::filesystem::path& path);
std::optional<std::string> unfinished_stk_origin(const std::filesystem::path& path);
PackedSummary stk_summary(const std::filesystem::path& path);

}  // namespace stoker
