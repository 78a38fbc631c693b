// The measured half of storage.h: real reads, bounded in time.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/rng.h"
#include "stoker/monitor/storage.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kBlock = 4096;  // O_DIRECT wants offsets and memory of whole blocks
constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// kPiece bytes at the beginning of a block.
using BlockMemory = std::unique_ptr<void, decltype(&std::free)>;
BlockMemory block_memory() {
    BlockMemory memory(std::aligned_alloc(kBlock, kPiece), &std::free);
    if (memory == nullptr) {
        throw std::bad_alloc();
    }
    return memory;
}

// A second descriptor of the file that reads past the page cache; if the file system lacks O_DIRECT, one whose pages
// were dropped from the cache as far as the kernel does that.
Descriptor direct(const ReadableFile& file, bool& cached) {
    const std::string name = fmt::format("/proc/self/fd/{}", file.file.get());
    Descriptor past_cache(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
    if (past_cache.get() >= 0) {
        return past_cache;
    }
    cached = true;
    Descriptor plain(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
    if (plain.get() < 0) {
        throw errno_error(name, "a file that can be read");
    }
    ::posix_fadvise(plain.get(), 0, 0, POSIX_FADV_DONTNEED);
    return plain;
}

std::size_t read_piece(int fd, std::byte* memory, std::uint64_t bytes, std::uint64_t offset) {
    const ssize_t count = ::pread(fd, memory, bytes, static_cast<off_t>(offset));
    if (count < 0) {
        throw errno_error("the file of the measurement", "a disk that can be read");
    }
    return static_cast<std::size_t>(count);
}

// All files from their beginnings, until the time is over.
double sequential_rate(std::span<const ReadableFile> files, std::span<const Descriptor> descriptors, std::byte* memory,
                       double seconds) {
    const auto start = Clock::now();
    std::uint64_t done = 0;
    for (std::size_t i = 0; i < files.size() && seconds_since(start) < seconds; ++i) {
        for (std::uint64_t at = 0; at < files[i].bytes && seconds_since(start) < seconds; at += kPiece) {
            done += read_piece(descriptors[i].get(), memory, kPiece, at);
        }
    }
    return static_cast<double>(done) / std::max(seconds_since(start), 1e-9);
}

double random_rate(std::span<const ReadableFile> files, std::span<const Descriptor> descriptors, std::byte* memory,
                   double seconds) {
    constexpr int kMost = 5000;
    Rng rng({.seed = static_cast<std::uint64_t>(Clock::now().time_since_epoch().count())});
    const auto start = Clock::now();
    int reads = 0;
    for (; reads < kMost && seconds_since(start) < seconds; ++reads) {
        const std::size_t file = rng.below(static_cast<std::uint32_t>(files.size()));
        const std::uint64_t blocks = std::min<std::uint64_t>(files[file].bytes / kBlock, UINT32_MAX);
        read_piece(descriptors[file].get(), memory, kBlock, kBlock * rng.below(static_cast<std::uint32_t>(blocks)));
    }
    return reads / std::max(seconds_since(start), 1e-9);
}

// A file that ends with the program's use of it. Not all file systems have files without names: then one is removed.
Descriptor open_nameless(const fs::path& folder) {
    Descriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (file.get() >= 0) {
        return file;
    }
    std::string name = (folder / ".stoker-read-test-XXXXXX").string();
    Descriptor named(::mkostemp(name.data(), O_CLOEXEC));
    if (named.get() < 0) {
        throw errno_error(folder.string(), "a folder that can be written");
    }
    ::unlink(name.c_str());
    return named;
}

}  // namespace

std::optional<ReadRates> measure_reads(std::span<const ReadableFile> files, double seconds) {
    if (files.empty()) {
        return std::nullopt;
    }
    const BlockMemory memory = block_memory();
    auto* bytes = static_cast<std::byte*>(memory.get());
    ReadRates rates;
    std::vector<Descriptor> descriptors;
    for (const ReadableFile& file : files) {
        descriptors.push_back(direct(file, rates.cached));
    }
    rates.random_reads = random_rate(files, descriptors, bytes, seconds / 2);  // first: sequential reads fill caches
    rates.sequential_bytes = sequential_rate(files, descriptors, bytes, seconds / 2);
    return rates;
}

std::vector<ReadableFile> files_to_read(const fs::path& path) {
    constexpr int kLookedAt = 400;
    constexpr std::size_t kMost = 32;
    std::vector<std::pair<std::uint64_t, fs::path>> found;
    const auto add = [&](const fs::path& file) {
        std::error_code error;
        const auto bytes = fs::is_regular_file(file, error) ? fs::file_size(file, error) : 0;
        if (!error && bytes >= kBlock) {
            found.emplace_back(bytes, file);
        }
    };
    add(path);
    std::error_code unreadable;  // folders that this user may not open have nothing to measure
    const auto options = fs::directory_options::skip_permission_denied;
    int looked_at = 0;
    for (fs::recursive_directory_iterator entry(path, options, unreadable), end;
         !unreadable && entry != end && looked_at < kLookedAt; entry.increment(unreadable), ++looked_at) {
        add(entry->path());
    }
    std::ranges::sort(found, std::ranges::greater());
    std::vector<ReadableFile> files;
    for (const auto& [bytes, file] : found) {
        Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
        if (descriptor.get() >= 0 && files.size() < kMost) {
            files.push_back({.file = std::move(descriptor), .bytes = bytes});
        }
    }
    return files;
}

// Also written past the page cache: fsync would wait for everything that others have written.
ReadableFile nameless_file(const fs::path& folder, std::uint64_t bytes, double seconds) {
    ReadableFile made{.file = open_nameless(folder)};
    const std::string name = fmt::format("/proc/self/fd/{}", made.file.get());
    const Descriptor past_cache(::open(name.c_str(), O_WRONLY | O_CLOEXEC | O_DIRECT));
    const int out = past_cache.get() >= 0 ? past_cache.get() : made.file.get();
    const BlockMemory memory = block_memory();
    const std::span<std::uint32_t> noise(static_cast<std::uint32_t*>(memory.get()), kPiece / sizeof(std::uint32_t));
    Rng rng({.seed = bytes});
    std::ranges::generate(noise, [&] { return rng.next(); });  // which no disk can compress
    const auto start = Clock::now();
    while (made.bytes < bytes && (made.bytes == 0 || seconds_since(start) < seconds)) {
        noise[0] = static_cast<std::uint32_t>(made.bytes);  // no two pieces are equal
        if (write_bytes(out, std::as_bytes(noise), made.bytes) < kPiece) {
            throw errno_error(folder.string(), "room for a file to measure with");
        }
        made.bytes += kPiece;
    }
    return made;
}

}  // namespace stoker
