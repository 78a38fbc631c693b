// Scalars as TensorBoard reads them: TFRecord frames (length, checksum, bytes, checksum) of Event messages, written by
// hand since four fields of protobuf are all there is to it. A run that goes on after a stop begins a further file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "stoker/base/file.h"

namespace stoker {

struct Scalar {
    std::string_view tag;  // "train/loss"
    double value = 0;      // a float in the file
};

struct EventFileOptions {
    std::filesystem::path folder;  // made where it is missing
    // Of the first step that this file may tell of. What earlier files in `folder` tell of it and of later ones,
    // TensorBoard drops, as a run does that goes on from a checkpoint at step `first_step` - 1.
    std::int64_t first_step = 0;
    double wall_time = 0;  // seconds since 1970, of the beginning; 0: now
};

class EventFile {
  public:
    // Begins a file whose name sorts behind those in the folder, as TensorBoard reads them. Throws IoError.
    explicit EventFile(const EventFileOptions& options);
    EventFile(EventFile&&) = default;
    EventFile& operator=(EventFile&&) = default;
    EventFile(const EventFile&) = delete;
    EventFile& operator=(const EventFile&) = delete;
    ~EventFile();  // what is still buffered is written; a failure then is silent

    // Appends one event with all `scalars`, buffered until `flush`; 64 KiB are flushed at once. Throws IoError.
    void add(std::int64_t step, double wall_time, std::span<const Scalar> scalars);
    void flush();

    const std::filesystem::path& path() const { return path_; }

  private:
    void record(std::string_view message);

    std::filesystem::path path_;
    Descriptor file_;
    std::string pending_;
};

// True for the name of a file that an EventFile wrote; other programs' have other endings.
bool is_event_file(const std::filesystem::path& path);

// Seconds since 1970.
double wall_time_now();

}  // namespace stoker
