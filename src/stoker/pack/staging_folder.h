// The working folder of an unfinished data set: NAME.part, next to the target. It holds the files under their final
// names and a journal of the finished parts. At the end each file is renamed to its place, and last a record,
// NAME.pack.json, which marks the data set as complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/folder_lock.h"
#include "stoker/io/append_file.h"
#include "stoker/pack/target.h"

namespace stoker {

// Ending of a target that consists of numbered shards: x-{000000..}.tar.
inline constexpr std::string_view kShardsEnding = "-{000000..}.tar";

struct StagingPaths {
    explicit StagingPaths(const std::filesystem::path& target);

    std::string target;            // for messages
    std::filesystem::path parent;  // the folder of the data set
    bool shards = false;
    std::string stem;              // "x" of x.tar, x.h5 and x-{000000..}.tar
    std::string file;              // "x.tar"; for shards the first, "x-000000.tar"
    std::filesystem::path folder;  // x.h5.part; x.part for shards
    std::filesystem::path record;  // x.h5.pack.json; x.pack.json for shards

    // "x-000003.tar"
    std::string shard(std::size_t number) const;
};

// A line of the journal. samples, codecs and content cover all parts up to this one.
struct StagedPart {
    std::int64_t samples = 0;
    std::map<std::string, std::int64_t> codecs;
    std::uint64_t content = 0;     // hash of the samples, see staged_target.cpp
    std::uint64_t hash = 0;        // of the part's bytes in the files
    nlohmann::ordered_json state;  // defined by the target: the end of the part in its files
    std::string notes;
};

class StagingFolder {
  public:
    // Creates the folder or resumes from it, and locks it; see TargetFormat::open.
    StagingFolder(const StagingPaths& names, const std::string& origin);
    StagingFolder(const StagingFolder&) = delete;
    StagingFolder& operator=(const StagingFolder&) = delete;
    ~StagingFolder();  // removes the folder unless it has parts

    const std::vector<StagedPart>& parts() const { return parts_; }
    void keep_parts(std::size_t count);
    void add(StagedPart part);  // after the part's bytes are synced

    // Moves `files`, names in the folder, and then the record to their places; removes the folder.
    void publish(const std::vector<std::string>& files, nlohmann::ordered_json record);

  private:
    void read_journal(const std::string& origin);
    void start_journal();
    void refuse_other_files() const;

    StagingPaths names_;
    std::string head_;  // the journal's first line
    std::optional<FolderLock> lock_;
    bool published_ = false;
    std::vector<StagedPart> parts_;
    std::unique_ptr<AppendFile> journal_;
};

// Values of a part's state. Throw DataError if the number or text is missing.
std::uint64_t state_number(const nlohmann::ordered_json& state, const char* name);
std::string state_text(const nlohmann::ordered_json& state, const char* name);

// The size of a file of an earlier run. Throws DataError if it is missing or has less than `least` bytes, IoError if
// the size cannot be read.
std::uint64_t staged_size(const std::filesystem::path& path, std::uint64_t least);

// See TargetFormat.
std::optional<std::string> finished_origin(const std::filesystem::path& path);
std::optional<std::string> unfinished_origin(const std::filesystem::path& path);
PackedSummary staged_summary(const std::filesystem::path& path);

}  // namespace stoker
