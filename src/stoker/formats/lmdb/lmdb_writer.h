// Writes an LMDB database in one file, which Python reads with `lmdb.open(path, subdir=False)`. The map grows with the
// data.
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
    // Opens or creates the file. LMDB's lock file is not used: the caller must keep other writers away. Throws IoError,
    // and DataError if the file is not an LMDB database.
    explicit LmdbWriter(std::filesystem::path path);
    LmdbWriter(const LmdbWriter&) = delete;
    LmdbWriter& operator=(const LmdbWriter&) = delete;
    ~LmdbWriter();  // discards changes that were not committed

    // Sets the value of a key. Fastest for keys in ascending order.
    void put(std::string_view key, std::span<const std::byte> value);

    // Removes all keys from `key` on. If there are many, they are removed and committed in parts.
    void drop_from(std::string_view key);

    // Makes the changes visible to readers and waits until they are on the disk.
    void commit();

    // The value of a key, valid until the next call; empty if there is none.
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
