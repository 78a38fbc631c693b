// Entry points of a data set's JPEGs, kept in a file from run to run. Several processes may use the file at a time, and
// each may be killed at any moment: it grows by records with hashes, and damaged ones are not used.
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
};

JpegKey jpeg_key(std::span<const std::byte> image);

// All functions are thread-safe, and none throws: without the index, images are decoded as before.
class JpegIndex {
  public:
    static constexpr std::uint64_t kMostBytes = std::uint64_t{2} << 30;  // of the file

    // Reads the file. It is made, with its folder, when there are points to write.
    explicit JpegIndex(std::filesystem::path file, std::uint64_t most_bytes = kMostBytes);
    JpegIndex(const JpegIndex&) = delete;
    JpegIndex& operator=(const JpegIndex&) = delete;
    ~JpegIndex();

    // Empty points if none are known.
    EntryPoints find(const JpegKey& key) noexcept;
    // Keeps points that are more than those known. They are found when they are in the file: after 64 KiB of points,
    // after 5 seconds with the next call, at a flush and at the end.
    void add(const JpegKey& key, const EntryPoints& points) noexcept;
    // Points of this image did not fit: this process neither finds nor adds any.
    void refuse(const JpegKey& key) noexcept;

    // Writes what was added. Waits so long for another process that writes. False: something is not written yet, or
    // never will be.
    bool flush(std::chrono::milliseconds most_wait = std::chrono::milliseconds(0)) noexcept;

    const std::filesystem::path& path() const { return path_; }
    std::int64_t images() const;  // with points
    std::int64_t bytes() const;   // of the file
    bool takes_points() const;
    // Why it takes no more; empty if it does.
    std::string stop_reason() const;

  private:
    struct Place {
        std::uint64_t offset = 0;  // of the record
        std::uint64_t size = 0;    // of the image
        std::uint32_t bytes = 0;   // of the record; 0: refused
        std::uint32_t points = 0;
    };
    class Lock;

    void open();
    bool make_file();
    bool read_records();
    bool append(std::span<const std::byte> records);
    std::vector<std::byte> unknown_records(std::span<const std::byte> records) const;
    std::size_t pending_bytes() const;
    void stop(const std::string& why) noexcept;

    const std::filesystem::path path_;
    const std::uint64_t most_bytes_;

    std::mutex file_mutex_;                            // taken before mutex_; guards what follows, up to mutex_
    std::uint64_t end_ = 0;                            // of the records that are read
    mutable std::mutex mutex_;                         // guards what follows; never held during input and output
    Descriptor file_;                                  // set once
    std::unordered_map<std::uint64_t, Place> places_;  // by hash
    std::uint64_t bytes_ = 0;                          // end_
    std::vector<std::byte> pending_;                   // records to append
    std::chrono::steady_clock::time_point flushed_;
    std::string stop_reason_;
};

}  // namespace stoker
