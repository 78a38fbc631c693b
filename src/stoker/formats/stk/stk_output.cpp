// The system calls behind stk_output.h.
#include "stoker/formats/stk/stk_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/stk/stk_layout.h"

namespace stoker {
namespace {

constexpr std::size_t kGathered = std::size_t{1} << 20;
constexpr const char* kMark = ".tmp-";

}  // namespace

StkOutput::StkOutput(std::filesystem::path target)
    : target_(std::move(target)), temporary_(fmt::format("{}{}{}", target_.string(), kMark, ::getpid())) {
    waiting_.reserve(kGathered);
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file_ < 0) {
        fail("a place to write");
    }
}

StkOutput::~StkOutput() {
    if (file_ >= 0) {
        ::close(file_);
        ::unlink(temporary_.c_str());
    }
}

void StkOutput::append(std::span<const std::byte> bytes) {
    size_ += bytes.size();
    if (waiting_.size() + bytes.size() > kGathered) {
        flush();
        if (bytes.size() > kGathered) {
            return write_out(bytes);
        }
    }
    waiting_.insert(waiting_.end(), bytes.begin(), bytes.end());
}

void StkOutput::pad() {
    constexpr std::byte kZeros[kStkAlignment] = {};
    append(std::span(kZeros).first(static_cast<std::size_t>(stk_align(size_) - size_)));
}

void StkOutput::commit() {
    flush();
    int result = 0;
    do {
        result = ::fsync(file_);
    } while (result != 0 && errno == EINTR);
    if (result != 0) {
        fail("the file to reach the disk");
    }
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
        fail("a name to write to");
    }
    ::close(std::exchange(file_, -1));
    sync_directory(target_.has_parent_path() ? target_.parent_path() : std::filesystem::path("."));
}

bool StkOutput::is_temporary(const std::filesystem::path& path) {
    const std::string name = path.filename().string();
    return (name.starts_with("shard-") || name.starts_with("stk.")) && name.find(kMark) != std::string::npos;
}

void StkOutput::flush() {
    write_out(waiting_);
    waiting_.clear();
}

void StkOutput::write_out(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(file_, bytes.data(), bytes.size());
        if (written < 0) {
            if (errno == EINTR) {
                continue;
            }
            fail("room to write");
        }
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
}

void StkOutput::fail(const char* expected) const {
    throw IoError({.where = target_.string(), .expected = expected, .got = errno_text()});
}

}  // namespace stoker
