// Keeps one state of an LMDB database as it is: a transaction of liblmdb, which enters itself in the table of readers
// beside the file, so that no writer reuses the pages of that state.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

struct MDB_txn;

namespace stoker {

// Where no lock file can be made, a writer does not know of us and may reuse pages.
class LmdbPin {
  public:
    // The newest state. `path`: the data file, whose first pages have been checked. Throws IoError where liblmdb cannot
    // open it, DataError where it finds it damaged.
    explicit LmdbPin(const std::string& path);
    LmdbPin(const LmdbPin&) = delete;
    LmdbPin& operator=(const LmdbPin&) = delete;
    // In a fork's copy nothing: its place in the table, which is shared memory, is the parent's.
    ~LmdbPin();

    std::uint64_t state() const;  // the number of the write that made it
    bool locked() const;          // writers know of it

  private:
    class Lease;

    std::unique_ptr<Lease> environment_;
    MDB_txn* transaction_ = nullptr;
};

}  // namespace stoker
