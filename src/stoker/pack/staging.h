// The place in which a data set grows until it is complete: a folder beside it, NAME.part, that holds the files under
// their final names and a journal of the parts that are on the disk. The end is a rename of each file and of a record,
// NAME.pack.json, that says what was packed; with the record the data set is complete, and not before.
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

// Of a target of numbered shards: x-{000000..}.tar.
inline constexpr std::string_view kShardsEnding = "-{000000..}.tar";

struct StagedNames {
    explicit StagedNames(const std::filesystem::path& target);

    std::string target;            // for messages
    std::filesystem::path parent;  // the folder that the data set appears in
    bool shards = false;
    std::string stem;              // "x" of x.tar, x.h5 and x-{000000..}.tar
    std::string file;              // "x.tar"; of the first shard "x-000000.tar"
    std::filesystem::path folder;  // x.h5.part; x.part for shards
    std::filesystem::path record;  // x.h5.pack.json; x.pack.json for shards

    // "x-000003.tar"
    std::string shard(std::size_t number) const;
};

// A line of the journal. All but notes and hash count from the first sample on.
struct StagedPart {
    std::int64_t samples = 0;
    std::map<std::string, std::int64_t> codecs;
    std::uint64_t content = 0;     // content.h
    std::uint64_t hash = 0;        // of the bytes that the part takes in its files
    nlohmann::ordered_json state;  // the target's own: where in its files the part ends
    std::string notes;
};

class Staging {
  public:
    // See TargetFormat::open.
    Staging(const StagedNames& names, const std::string& origin);
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;
    ~Staging();  // the folder goes with it while there are no parts

    const std::vector<StagedPart>& parts() const { return parts_; }
    void keep(std::size_t count);
    void add(StagedPart part);  // what it tells of is on the disk

    // The files, named as they lie in the folder, and the record get their place; the folder goes.
    void publish(const std::vector<std::string>& files, nlohmann::ordered_json record);

  private:
    void read_journal(const std::string& origin);
    void start_journal();
    void refuse_other_files() const;

    StagedNames names_;
    std::string head_;  // the journal's first line
    std::optional<FolderLock> lock_;
    bool published_ = false;
    std::vector<StagedPart> parts_;
    std::unique_ptr<AppendFile> journal_;
};

// Of a part's state. Throw DataError where there is no number, no text of that name.
std::uint64_t state_number(const nlohmann::ordered_json& state, const char* name);
std::string state_text(const nlohmann::ordered_json& state, const char* name);

// The size of a file of an earlier run. Throws DataError where it is gone or has less than `least` bytes, IoError where
// that cannot be told.
std::uint64_t staged_size(const std::filesystem::path& path, std::uint64_t least);

// For the table of formats; see TargetFormat.
std::optional<std::string> finished_origin(const std::filesystem::path& path);
std::optional<std::string> begun_origin(const std::filesystem::path& path);
PackedFigures staged_figures(const std::filesystem::path& path);

}  // namespace stoker
