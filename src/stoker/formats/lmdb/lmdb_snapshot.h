// One state of an LMDB database to read from, whatever a writer commits meanwhile. liblmdb keeps the state
// (lmdb_pin.h); what is in it is read without liblmdb, which trusts its file (lmdb_tree.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "stoker/base/buffer.h"
#include "stoker/base/file.h"
#include "stoker/base/in_place.h"
#include "stoker/formats/lmdb/lmdb_meta.h"
#include "stoker/formats/lmdb/lmdb_pin.h"
#include "stoker/formats/lmdb/lmdb_tree.h"

namespace stoker {

// The data file that `data` means: a folder's data.mdb, or a file named .lmdb or .mdb. Empty where it means none.
std::optional<std::filesystem::path> find_lmdb(const std::filesystem::path& data);

// Views handed out stay valid as long as the snapshot. By many threads at once, and in a fork's copy as long as the
// parent keeps its own.
class LmdbSnapshot {
  public:
    // Throws IoError where the file cannot be opened, DataError where it is no LMDB file or is cut short, Unsupported
    // for several values a key, or a file of another kind of machine.
    explicit LmdbSnapshot(const std::filesystem::path& data);

    const LmdbTree& tree() const { return tree_; }

    // The bytes of a value of the tree, where they are mapped or read into `storage`: in_place.h says when.
    std::span<const std::byte> load(std::span<const std::byte> value, Buffer& storage) const;

    std::uint64_t entries() const { return meta_.entries; }
    std::uint64_t bytes() const { return info_.size; }  // of the file
    const std::string& path() const { return path_; }
    // Differs where the content does; to be kept where that is settled, as of a ByteFile.
    std::string stamp() const;
    bool settled() const;

  private:
    void pin();

    std::string path_;
    File file_;
    FileInfo info_;
    std::optional<LmdbPin> pin_;
    LmdbMeta meta_;
    MappedFile map_;
    InPlace in_place_;
    LmdbTree tree_;
};

}  // namespace stoker
