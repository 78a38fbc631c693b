// Plain files are read, not mapped: a file of gigabytes would count as memory of the process.
#include "stoker/diagnose/torch_trace/trace_bytes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>

#include "stoker/base/error.h"

namespace stoker {

TraceBytes::TraceBytes(const std::filesystem::path& path) : file_(path), size_(file_->info().size) {
    std::array<std::byte, 2> first{};
    if (size_ >= first.size()) {
        file_->read(0, first);
    }
    if (is_gzip(first)) {
        map_ = MappedFile(*file_);
        gzip_ = std::make_unique<GzipReader>(map_.bytes());
    }
}

TraceBytes::TraceBytes(std::span<const std::byte> bytes) : bytes_(bytes), size_(bytes.size()) {
    if (is_gzip(bytes)) {
        gzip_ = std::make_unique<GzipReader>(bytes);
    }
}

std::size_t TraceBytes::read(std::span<char> out) {
    const std::span<std::byte> bytes = std::as_writable_bytes(out);
    if (damage_) {
        return 0;
    }
    if (gzip_ != nullptr) {
        return read_packed(bytes);
    }
    const std::size_t count = std::min<std::uint64_t>(bytes.size(), size_ - offset_);
    if (file_) {
        file_->read(offset_, bytes.first(count));
    } else if (count > 0) {
        std::memcpy(bytes.data(), bytes_.data() + offset_, count);
    }
    offset_ += count;
    return count;
}

// Bytes that were unpacked before the damage are kept.
std::size_t TraceBytes::read_packed(std::span<std::byte> out) {
    const std::size_t before = gzip_->written();
    try {
        gzip_->read(out);
    } catch (const DataError&) {
        damage_ = fmt::format("its gzip data is damaged at byte {}", gzip_->offset());
    }
    if (gzip_->truncated()) {
        damage_ = fmt::format("its gzip data ends early, at byte {}", gzip_->offset());
    }
    return gzip_->written() - before;
}

}  // namespace stoker
