// TensorBoard event files with scalars: TFRecord frames (length, CRC, bytes, CRC) of Event messages. They need few
// protobuf fields, so they are written without the library. A resumed run starts another file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "stoker/base/file.h"

namespace stoker {

struct Scalar {
    std::string tag;   // "train/loss"
    double value = 0;  // a float in the file
};

struct EventFileOptions {
    std::filesystem::path folder;  // created if missing
    // TensorBoard drops events of this step and later that earlier files in `folder` have. A run resumed from a
    // checkpoint at step s starts with s + 1.
    std::int64_t first_step = 0;
    double wall_time = 0;  // of the file's start, seconds since 1970; 0: now
};

class EventFile {
  public:
    // Starts a file whose name sorts after those in the folder; TensorBoard reads files by name. Throws IoError.
    explicit EventFile(const EventFileOptions& options);
    EventFile(EventFile&&) = default;
    EventFile& operator=(EventFile&&) = default;
    ~EventFile();  // flushes and ignores errors

    // Appends one event with all `scalars` to the buffer, which is flushed at 64 KiB. Throws IoError.
    void add(std::int64_t step, double wall_time, std::span<const Scalar> scalars);
    void flush();

    const std::filesystem::path& path() const { return path_; }

  private:
    void record(std::string_view message);

    std::filesystem::path path_;
    Descriptor file_;
    std::string pending_;
};

// True for names of files that EventFile wrote; other programs use other suffixes.
bool is_event_file(const std::filesystem::path& path);

// Seconds since 1970.
double wall_time_now();

}  // namespace stoker
