// The local byte file, and the choice between local and remote.
#include "stoker/io/byte_file.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <mutex>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/url_secrets.h"
#include "stoker/io/remote/remote_file.h"

namespace stoker {
namespace {

// Coarser than the timestamps of any file system in use.
constexpr std::chrono::seconds kClockTick(2);

class LocalFile final : public ByteFile {
  public:
    explicit LocalFile(const std::string& name) : name_(name), file_(name), info_(file_.info()) {}

    std::uint64_t size() const override { return info_.size; }
    void read(std::uint64_t offset, std::span<std::byte> out) const override { file_.read(offset, out); }
    std::span<const std::byte> map() const override {
        std::call_once(mapping_, [this] { map_ = MappedFile(file_); });
        return map_.bytes().first(std::min<std::size_t>(map_.bytes().size(), info_.size));
    }
    bool in_memory(std::uint64_t offset, std::uint64_t size) const override { return file_.in_memory(offset, size); }
    void will_need(std::uint64_t offset, std::uint64_t size) const override { file_.will_need(offset, size); }
    const std::string& name() const override { return name_; }
    std::string stamp() const override { return stamp_of(info_); }
    bool settled() const override { return is_settled(info_); }

  private:
    std::string name_;
    File file_;
    FileInfo info_;
    mutable std::once_flag mapping_;
    mutable MappedFile map_;
};

}  // namespace

std::vector<ByteRange> merge_ranges(std::vector<ByteRange> ranges, std::uint64_t gap) {
    std::ranges::sort(ranges, {}, &ByteRange::offset);
    std::vector<ByteRange> merged;
    for (const ByteRange& range : ranges) {
        if (merged.empty() || range.offset > merged.back().offset + merged.back().size + gap) {
            merged.push_back(range);
        } else {
            const std::uint64_t end = std::max(merged.back().offset + merged.back().size, range.offset + range.size);
            merged.back().size = end - merged.back().offset;
        }
    }
    return merged;
}

std::string stamp_of(const FileInfo& info) {
    return fmt::format("{} bytes of {} and {} in {}", info.size, info.modified_ns, info.changed_ns, info.inode);
}

bool is_settled(const FileInfo& info) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return now - std::chrono::nanoseconds(info.changed_ns) > kClockTick;
}

bool is_remote(std::string_view name) {
    return is_url(name);
}

std::string shown_name(std::string_view name) {
    return shown_url(name);
}

std::unique_ptr<ByteFile> open_byte_file(const std::string& name, const RemoteOptions& options) {
    if (is_remote(name)) {
        return std::make_unique<RemoteFile>(name, options);
    }
    return std::make_unique<LocalFile>(name);
}

}  // namespace stoker
