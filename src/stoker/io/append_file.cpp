// Writes go to places that the class knows, never to "the end": whatever another descriptor does, a byte lands
// where its offset says.
#include "stoker/io/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"

namespace stoker {
namespace {

constexpr std::size_t kGathered = std::size_t{1} << 20;

}  // namespace

AppendFile::AppendFile(std::filesystem::path path, std::uint64_t keep) : path_(std::move(path)), size_(keep) {
    waiting_.reserve(kGathered);
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file_ < 0) {
        fail("a place to write");
    }
    try {
        cut_to(keep);
    } catch (...) {
        ::close(file_);
        throw;
    }
}

void AppendFile::cut_to(std::uint64_t size) const {
    struct stat status = {};
    if (::fstat(file_, &status) != 0) {
        fail("a file whose size is known");
    }
    if (static_cast<std::uint64_t>(status.st_size) < size) {
        throw IoError({.where = path_.string(),
                       .expected = fmt::format("a file of at least {} bytes to go on with", size),
                       .got = fmt::format("{} bytes", status.st_size)});
    }
    if (::ftruncate(file_, static_cast<off_t>(size)) != 0) {
        fail("a file that can be cut");
    }
}

AppendFile::~AppendFile() {
    ::close(file_);
}

void AppendFile::append(std::span<const std::byte> bytes) {
    hash_.update(bytes);
    if (waiting_.size() + bytes.size() > kGathered) {
        flush();
    }
    if (bytes.size() > kGathered) {
        write_out(size_, bytes);
    } else {
        waiting_.insert(waiting_.end(), bytes.begin(), bytes.end());
    }
    size_ += bytes.size();
}

void AppendFile::replace(std::uint64_t offset, std::span<const std::byte> bytes) {
    flush();
    if (offset > size_ || bytes.size() > size_ - offset) {
        throw InternalError({.where = path_.string(),
                             .expected = fmt::format("bytes within the first {}", size_),
                             .got = fmt::format("{} at {}", bytes.size(), offset)});
    }
    write_out(offset, bytes);
}

void AppendFile::sync() {
    flush();
    int result = 0;
    do {
        result = ::fsync(file_);
    } while (result != 0 && errno == EINTR);
    if (result != 0) {
        fail("the file to reach the disk");
    }
}

std::uint64_t AppendFile::take_hash() {
    const std::uint64_t value = hash_.value();
    hash_.reset();
    return value;
}

void AppendFile::flush() {
    write_out(size_ - waiting_.size(), waiting_);
    waiting_.clear();
}

void AppendFile::write_out(std::uint64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (written < 0) {
            if (errno == EINTR) {
                continue;
            }
            fail("room to write");
        }
        offset += static_cast<std::uint64_t>(written);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
}

void AppendFile::fail(const char* expected) const {
    throw IoError({.where = path_.string(), .expected = expected, .got = errno_text()});
}

std::uint64_t hash_range(const std::filesystem::path& path, std::uint64_t begin, std::uint64_t end) {
    const File file(path);
    std::vector<std::byte> piece(std::min<std::uint64_t>(kGathered, end - begin));
    StreamHash hash;
    while (begin < end) {
        const auto part = std::span(piece).first(std::min<std::uint64_t>(piece.size(), end - begin));
        file.read(begin, part);
        hash.update(part);
        begin += part.size();
    }
    return hash.value();
}

}  // namespace stoker
