// Entry points of a data set's JPEGs, kept in a file from run to run. Several processes may use the file at a time, and
// each may be killed at any moment: it grows by records with hashes, and what is damaged is not used.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "stoker/base/file.h"
#include "stoker/codecs/jpeg/entry_points.h"

namespace stoker {

// Identifies the bytes of an image, wherever they are stored.
struct JpegKey {
    std::uint64_t hash = 0;
    std::uint64_t size = 0;

    bool operator==(const JpegKey&) const = default;
};

JpegKey jpeg_key(std::span<const std::byte> image);

// All functions are thread-safe, and throw nothing: without the file, images are decoded as before.
class JpegIndex {
  public:
    // Reads the file. It is made, with its folder, when there are points to write. One with records of many more than
    // `images` images is begun anew: the data changed.
    JpegIndex(std::filesystem::path file, std::int64_t images);
    JpegIndex(const JpegIndex&) = delete;
    JpegIndex& operator=(const JpegIndex&) = delete;
    ~JpegIndex();

    // Empty points if none are known.
    EntryPoints find(const JpegKey& key) const;
    // Keeps points that are more than those known.
    void add(const JpegKey& key, const EntryPoints& points);

    // Writes what was added. Otherwise that happens at 64 KiB, after some seconds, and at the end.
    void flush();

    const std::filesystem::path& path() const { return path_; }
    std::int64_t images() const;  // with points in the file
    std::int64_t bytes() const;   // of the file
    // Why no more points are written; empty if they are.
    std::string stop_reason() const;

  private:
    struct Place {
        std::uint64_t offset = 0;  // of the record
        std::uint64_t size = 0;    // of the image
        std::uint32_t bytes = 0;   // of the record
        std::uint32_t points = 0;
    };
    class Lock;

    void open(std::int64_t images);
    bool make_file();
    void read_records();
    void flush_pending(std::chrono::milliseconds most_wait);
    void append();
    void stop(const std::string& why);

    const std::filesystem::path path_;
    mutable std::mutex mutex_;  // guards all below
    Descriptor file_;
    std::uint64_t end_ = 0;                            // of the records that are read
    std::unordered_map<std::uint64_t, Place> places_;  // by hash
    std::vector<std::byte> pending_;                   // records to append
    std::chrono::steady_clock::time_point flushed_;
    std::string stop_reason_;
};

}  // namespace stoker
