// One state of an LMDB database, which stays the same while writers commit. A read transaction of liblmdb preserves the
// state. Its pages are read without liblmdb, which does not check them (lmdb_tree.h). liblmdb 0.9 cannot open files of
// LMDB 1.0: those are read without a transaction, so nobody may write to them meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "stoker/base/buffer.h"
#include "stoker/base/file.h"
#include "stoker/base/map_or_read.h"
#include "stoker/formats/lmdb/lmdb_meta.h"
#include "stoker/formats/lmdb/lmdb_tree.h"

struct MDB_txn;

namespace stoker {

// A read transaction of liblmdb. It registers in the lock file's reader table, so that no writer reuses the pages of
// the state that it sees. If no lock file can be made, writers do not know of the transaction and may reuse its pages:
// locked() is false.
class LmdbTransaction {
  public:
    // Begins a transaction on the newest state. `path`: the data file, whose meta pages have been checked. Throws
    // IoError if liblmdb cannot open it, DataError if liblmdb finds damage.
    explicit LmdbTransaction(const std::string& path);
    LmdbTransaction(const LmdbTransaction&) = delete;
    LmdbTransaction& operator=(const LmdbTransaction&) = delete;
    // Does nothing after a fork in the child: the entry in the reader table, which is shared memory, is the parent's.
    ~LmdbTransaction();

    std::uint64_t number() const;  // of the write transaction that made this state
    bool locked() const;           // true if it is in the reader table

  private:
    class SharedEnvironment;

    std::unique_ptr<SharedEnvironment> environment_;
    MDB_txn* transaction_ = nullptr;
};

// The data file: `data`/data.mdb, or `data` itself if its name ends in .lmdb or .mdb. Empty if there is none.
std::optional<std::filesystem::path> find_lmdb(const std::filesystem::path& data);

// Views of values stay valid as long as the snapshot. Thread-safe. After a fork the child may use it as long as the
// parent keeps its own.
class LmdbSnapshot {
  public:
    // Throws IoError if the file cannot be opened, DataError if it is not an LMDB file or is cut short, Unsupported for
    // several values per key and for files of big-endian machines.
    explicit LmdbSnapshot(const std::filesystem::path& data);

    const LmdbTree& tree() const { return tree_; }

    // The bytes of a value of the tree: `value` itself or a copy in `storage`, as map_or_read.h decides.
    std::span<const std::byte> load(std::span<const std::byte> value, Buffer& storage) const;

    std::uint64_t entries() const { return meta_.entries; }
    std::uint64_t bytes() const { return info_.size; }  // of the file
    const std::string& path() const { return path_; }
    // Changes when the content changes. settled(): the file rests, so that the stamp may be stored, as for a ByteFile.
    std::string stamp() const;
    bool settled() const;

  private:
    void begin_transaction();
    void read_settled_meta();

    std::string path_;
    File file_;
    FileInfo info_;
    std::optional<LmdbTransaction> transaction_;  // none for LMDB 1.0
    LmdbMeta meta_;
    MappedFile map_;
    MapOrRead map_or_read_;
    LmdbTree tree_;
};

}  // namespace stoker
