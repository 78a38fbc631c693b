// The storage of a path, and how fast it can be read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/file.h"

namespace stoker {

enum class StorageKind { unknown, nvme, ssd, rotating, virtual_disk, memory, network, overlay };
const char* storage_name(StorageKind kind);

struct Storage {
    StorageKind kind = StorageKind::unknown;
    std::string file_system;  // "ext4"
    std::string device;       // "nvme0n1" or "server:/export"
};

// A line of /proc/self/mountinfo.
struct Mount {
    std::string device;  // "259:2"
    std::string folder;
    std::string file_system;
    std::string source;
};
std::vector<Mount> parse_mounts(std::string_view mountinfo);

// The storage of `path`, an absolute path without links. The disk behind a virtual machine's is not known, and its flag
// for rotation means nothing. `root` replaces "/" in tests, before /proc and /sys.
Storage storage_of(const std::filesystem::path& path, const std::string& root = "");

// A file to read from.
struct ReadableFile {
    Descriptor file;
    std::uint64_t bytes = 0;
};

struct ReadRates {
    double sequential_bytes = 0;  // a second, in pieces of 1 MiB
    double random_reads = 0;      // a second, of 4 KiB, one after the other
    bool cached = false;          // the page cache may have answered: the file system does not read past it
};

// Reads for at most `seconds`, past the page cache (O_DIRECT) where the file system can. Empty without a file of 4 KiB.
// Throws IoError if the disk fails.
std::optional<ReadRates> measure_reads(std::span<const ReadableFile> files, double seconds);

// Some of the files at or below `path`, large ones preferred: looks at no more than a few hundred entries.
std::vector<ReadableFile> files_to_read(const std::filesystem::path& path);

// A file of random bytes on the disk of `folder`: `bytes`, a multiple of 1 MiB, or fewer if `seconds` are over. It is
// nameless and gone when it is closed. Throws IoError.
ReadableFile nameless_file(const std::filesystem::path& folder, std::uint64_t bytes, double seconds);

}  // namespace stoker
