// Every write names its offset, so other descriptors of the file cannot displace it.
#include "stoker/io/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"

namespace stoker {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

AppendFile::AppendFile(std::filesystem::path path, std::uint64_t keep)
    : path_(std::move(path)),
      file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)),
      size_(keep) {
    buffered_.reserve(kBufferBytes);
    if (file_.get() < 0) {
        throw errno_error(path_.string(), "a place to write");
    }
    const off_t found = ::lseek(file_.get(), 0, SEEK_END);
    if (found < 0) {
        throw errno_error(path_.string(), "a file whose size is known");
    }
    if (static_cast<std::uint64_t>(found) < keep) {
        throw IoError({.where = path_.string(),
                       .expected = fmt::format("a file of at least {} bytes", keep),
                       .got = fmt::format("{} bytes", found)});
    }
    if (::ftruncate(file_.get(), static_cast<off_t>(keep)) != 0) {
        throw errno_error(path_.string(), "a file that can be truncated");
    }
}

void AppendFile::append(std::span<const std::byte> bytes) {
    hash_.update(bytes);
    if (buffered_.size() + bytes.size() > kBufferBytes) {
        flush();
    }
    if (bytes.size() > kBufferBytes) {
        write_out(size_, bytes);
    } else {
        buffered_.insert(buffered_.end(), bytes.begin(), bytes.end());
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
    sync_file(file_.get(), path_);
}

std::uint64_t AppendFile::take_hash() {
    const std::uint64_t value = hash_.value();
    hash_.reset();
    return value;
}

void AppendFile::flush() {
    write_out(size_ - buffered_.size(), buffered_);
    buffered_.clear();
}

void AppendFile::write_out(std::uint64_t offset, std::span<const std::byte> bytes) {
    if (write_bytes(file_.get(), bytes, offset) < bytes.size()) {
        throw errno_error(path_.string(), "room to write");
    }
}

std::uint64_t hash_range(const std::filesystem::path& path, std::uint64_t begin, std::uint64_t end) {
    const File file(path);
    std::vector<std::byte> piece(std::min<std::uint64_t>(kBufferBytes, end - begin));
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
