// LMDB environments, opened for reading, and one state of one of them to read from. liblmdb forbids a process to open a
// file twice, so that environments are shared; and it trusts its file, so that the file's first pages are checked
// before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/file.h"
#include "stoker/base/in_place.h"

struct MDB_env;
struct MDB_txn;
struct MDB_cursor;

namespace stoker {

// The data file that `data` means: a folder's data.mdb, or a file named .lmdb or .mdb. Empty where it means none.
std::optional<std::filesystem::path> find_lmdb(const std::filesystem::path& data);

struct LmdbEntry {
    std::string_view key;
    std::span<const std::byte> value;
};

// The data as they were when this was made: whatever a writer commits later is not seen, and every view handed out
// stays valid as long as the snapshot. (Where no lock file can be made, a writer does not know of us and may reuse
// pages.)
//
// A transaction of LMDB belongs to one thread at a time, so each thread has one of its own of a small pool, begun when
// the thread comes first. Once a writer has committed, new transactions would see other data: then threads without one
// share the first, which the snapshot holds all its life.
class LmdbSnapshot {
    struct Transaction;

  public:
    // Throws IoError where the file cannot be opened, DataError where it is no LMDB file or is cut short, Unsupported
    // for several values a key, or a file of another kind of machine.
    explicit LmdbSnapshot(const std::filesystem::path& data);
    LmdbSnapshot(const LmdbSnapshot&) = delete;
    LmdbSnapshot& operator=(const LmdbSnapshot&) = delete;
    ~LmdbSnapshot();

    // A thread's turn to read. Errors of LMDB are DataError where the file is damaged, else IoError.
    class Reader {
      public:
        // The value under a key; empty where there is none. Throws DataError where it does not lie in the file.
        std::optional<std::span<const std::byte>> find(std::string_view key);
        // In the order of the keys. Empty where there are no more. Values are not checked: `load` does.
        std::optional<LmdbEntry> first();
        std::optional<LmdbEntry> last();
        std::optional<LmdbEntry> next();
        std::optional<LmdbEntry> previous();
        std::optional<LmdbEntry> at_or_after(std::string_view key);

        // Below kReaders; no two threads have the same at a time. For memory that goes with a reader.
        std::size_t number() const { return number_; }

      private:
        friend class LmdbSnapshot;
        Reader(const LmdbSnapshot& snapshot, std::size_t number, std::unique_lock<std::mutex> lock)
            : snapshot_(&snapshot), number_(number), lock_(std::move(lock)) {}
        std::optional<LmdbEntry> move(std::string_view key, int operation);

        const LmdbSnapshot* snapshot_;
        std::size_t number_;
        std::unique_lock<std::mutex> lock_;
    };

    static constexpr std::size_t kReaders = 32;
    Reader reader() const;

    // The value's bytes, where they are mapped or read into `storage`: in_place.h says when.
    std::span<const std::byte> load(std::span<const std::byte> value, Buffer& storage) const;

    // The pages of this state as they are mapped; empty where the system does not tell.
    std::span<const std::byte> mapped() const;
    // Where the B-tree of this state begins; empty where a writer has overwritten that.
    struct Root {
        std::size_t page_size = 0;
        std::uint64_t page = 0;
    };
    std::optional<Root> root() const;

    std::uint64_t entries() const { return entries_; }
    std::uint64_t bytes() const { return info_.size; }  // of the file
    const std::string& path() const { return path_; }
    // Differs where the content does; to be kept where that is settled, as of a ByteFile.
    std::string stamp() const;
    bool settled() const;

  private:
    class Lease;

    bool begin(Transaction& transaction) const;
    std::uint64_t find_bound() const;
    void check_bound(std::span<const std::byte> value) const;

    std::string path_;
    File file_;
    FileInfo info_;
    std::unique_ptr<Lease> environment_;
    std::unique_ptr<Transaction[]> transactions_;
    std::uint64_t bound_ = 0;  // of the file: what lies beyond is not part of this state
    InPlace in_place_;
    std::uint64_t entries_ = 0;
    std::uint64_t state_ = 0;         // the number of the write that made it
    const std::byte* map_ = nullptr;  // where the file begins in memory; null where the system does not tell
};

}  // namespace stoker
