// A read transaction of liblmdb. It registers in the lock file's reader table, so that no writer reuses the pages of
// the state that it sees.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

struct MDB_txn;

namespace stoker {

// If no lock file can be made, writers do not know of the transaction and may reuse its pages: locked() is false.
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

}  // namespace stoker
