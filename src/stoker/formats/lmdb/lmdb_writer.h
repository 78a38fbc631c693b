// Writes an LMDB database in one file, as Python's `lmdb.open(path, subdir=False)` reads it. The map grows with the
// data; nothing is there for a reader until `commit`, which leaves it on the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace stoker {

class LmdbWriter {
  public:
    // Opens or makes the file. The caller keeps other writers away: LMDB's own lock file is not used. Throws IoError,
    // DataError for a file that is no LMDB database.
    explicit LmdbWriter(std::filesystem::path path);
    LmdbWriter(const LmdbWriter&) = delete;
    LmdbWriter& operator=(const LmdbWriter&) = delete;
    ~LmdbWriter();  // drops what was not committed

    // Replaces the value of a key. Fastest where keys come in rising order.
    void put(std::string_view key, std::span<const std::byte> value);

    // Removes every key that is not below `key`. Many are removed, and committed, a part after the other.
    void drop_from(std::string_view key);

    void commit();

    // A value, valid until the next call; empty where there is none.
    std::optional<std::span<const std::byte>> get(std::string_view key);

    std::uint64_t entries();

  private:
    struct Handles;

    void begin();
    bool drop_all_from(std::string_view key);
    bool drop_some(std::string_view key);
    void need(std::uint64_t bytes);
    void check(int status, const char* expected) const;

    std::filesystem::path path_;
    std::unique_ptr<Handles> handles_;
    std::uint64_t room_ = 0;  // bytes that still fit the map in this transaction
};

}  // namespace stoker
