// The file: a magic number, then records, each a header and packed points. Who appends holds a lock (flock), reads the
// records of others first, and cuts off what a killed process left incomplete.
#include "stoker/codecs/jpeg/jpeg_index.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <thread>
#include <utility>

#include "stoker/base/buffer.h"
#include "stoker/base/error.h"
#include "stoker/base/hash.h"

namespace stoker {
namespace {

constexpr std::array<char, 16> kMagic = {'s', 't', 'o', 'k', 'e', 'r', ' ', 'j', 'p', 'e', 'g', 's', ' ', '1', '\n'};

struct RecordHeader {
    std::uint64_t hash = 0;  // of the rest of the header and of the points
    std::uint64_t image_hash = 0;
    std::uint64_t image_size = 0;
    std::uint32_t bytes = 0;  // of the packed points
    std::uint32_t points = 0;
};

constexpr std::uint32_t kMostRecordBytes = 1 << 22;  // an image of kMaxPixels has fewer
constexpr std::size_t kFlushBytes = 64 * 1024;
constexpr std::size_t kMostPending = 8 * 1024 * 1024;
constexpr std::chrono::seconds kFlushTime(5);
constexpr std::size_t kReadBytes = 2 * kMostRecordBytes;

std::uint64_t record_hash(std::span<const std::byte> record) {
    return hash_bytes(record.subspan(sizeof(RecordHeader::hash)));
}

// The header of a complete record at the beginning of `bytes`; empty for anything else.
std::optional<RecordHeader> header_at(std::span<const std::byte> bytes) {
    RecordHeader header;
    if (bytes.size() < sizeof header) {
        return std::nullopt;
    }
    std::memcpy(&header, bytes.data(), sizeof header);
    const std::size_t size = sizeof header + std::size_t{header.bytes};
    if (header.bytes > kMostRecordBytes || bytes.size() < size || record_hash(bytes.first(size)) != header.hash) {
        return std::nullopt;
    }
    return header;
}

}  // namespace

JpegKey jpeg_key(std::span<const std::byte> image) {
    return {.hash = hash_bytes(image), .size = image.size()};
}

// Other processes wait until it is destroyed. Not held if they did not let go in time, or the file system knows no
// locks.
class JpegIndex::Lock {
  public:
    Lock(int file, std::chrono::milliseconds most_wait) : file_(file) {
        constexpr std::chrono::milliseconds kPause(10);
        for (auto waited = std::chrono::milliseconds(0);; waited += kPause) {
            held_ = ::flock(file_, LOCK_EX | LOCK_NB) == 0;
            if (held_ || (errno != EWOULDBLOCK && errno != EINTR) || waited >= most_wait) {
                error_ = held_ || errno == EWOULDBLOCK || errno == EINTR ? 0 : errno;
                return;
            }
            std::this_thread::sleep_for(kPause);
        }
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock() {
        if (held_) {
            ::flock(file_, LOCK_UN);
        }
    }

    bool held() const { return held_; }
    int error() const { return error_; }  // 0: others hold it

  private:
    int file_;
    bool held_ = false;
    int error_ = 0;
};

JpegIndex::JpegIndex(std::filesystem::path file, std::int64_t images)
    : path_(std::move(file)), flushed_(std::chrono::steady_clock::now()) {
    open(images);
}

JpegIndex::~JpegIndex() {
    flush();
}

void JpegIndex::flush() {
    const std::lock_guard guard(mutex_);
    flush_pending(std::chrono::milliseconds(200));
}

// A file that does not exist is made at the first flush.
void JpegIndex::open(std::int64_t images) {
    constexpr std::uint64_t kFew = 10'000;
    file_ = Descriptor(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    if (file_.get() < 0 && errno != ENOENT) {
        stop(errno_text());
        file_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    }
    read_records();
    if (places_.size() > 8 * static_cast<std::uint64_t>(images) + kFew && stop_reason_.empty()) {
        ::unlink(path_.c_str());  // processes that have it open continue with the old one
        file_ = Descriptor();
        places_.clear();
        end_ = 0;
    }
}

bool JpegIndex::make_file() {
    std::error_code failed;
    std::filesystem::create_directories(path_.parent_path(), failed);
    file_ = Descriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (file_.get() < 0) {
        stop(errno_text());
    }
    return file_.get() >= 0;
}

// Those behind end_, up to the first incomplete one.
void JpegIndex::read_records() {
    if (end_ == 0) {
        std::array<char, kMagic.size()> magic{};
        read_bytes(file_.get(), std::as_writable_bytes(std::span(magic)), 0);
        if (magic != kMagic) {
            return;
        }
        end_ = kMagic.size();
    }
    struct stat info {};
    Buffer buffer;
    while (::fstat(file_.get(), &info) == 0 && static_cast<std::uint64_t>(info.st_size) > end_) {
        buffer.resize(std::min<std::uint64_t>(static_cast<std::uint64_t>(info.st_size) - end_, kReadBytes));
        const std::size_t got = read_bytes(file_.get(), buffer.bytes(), end_);
        std::span<const std::byte> rest = buffer.bytes().first(got);
        while (const std::optional<RecordHeader> header = header_at(rest)) {
            const std::size_t bytes = sizeof *header + header->bytes;
            Place& place = places_[header->image_hash];
            if (place.points <= header->points || place.size != header->image_size) {
                place = {.offset = end_,
                         .size = header->image_size,
                         .bytes = static_cast<std::uint32_t>(bytes),
                         .points = header->points};
            }
            end_ += bytes;
            rest = rest.subspan(bytes);
        }
        if (rest.size() == got) {  // incomplete, or damaged
            return;
        }
    }
}

EntryPoints JpegIndex::find(const JpegKey& key) const {
    Place place;
    int file = -1;
    {
        const std::lock_guard guard(mutex_);
        const auto found = places_.find(key.hash);
        if (found == places_.end() || found->second.size != key.size) {
            return {};
        }
        place = found->second;
        file = file_.get();
    }
    thread_local std::vector<std::byte> record;
    record.resize(place.bytes);
    if (read_bytes(file, record, place.offset) != record.size()) {
        return {};
    }
    const std::optional<RecordHeader> header = header_at(record);
    if (!header || header->image_hash != key.hash || header->image_size != key.size) {
        return {};
    }
    return unpack_points(std::span(record).subspan(sizeof *header)).value_or(EntryPoints());
}

void JpegIndex::add(const JpegKey& key, const EntryPoints& points) {
    RecordHeader header{
        .image_hash = key.hash, .image_size = key.size, .points = static_cast<std::uint32_t>(points.points.size())};
    thread_local std::vector<std::byte> record;
    record.assign(sizeof header, std::byte{0});
    pack_points(points, record);
    header.bytes = static_cast<std::uint32_t>(record.size() - sizeof header);
    std::memcpy(record.data(), &header, sizeof header);
    header.hash = record_hash(record);
    std::memcpy(record.data(), &header.hash, sizeof header.hash);

    const std::lock_guard guard(mutex_);
    if (!stop_reason_.empty() || header.bytes > kMostRecordBytes) {
        return;
    }
    pending_.insert(pending_.end(), record.begin(), record.end());
    if (pending_.size() >= kFlushBytes || std::chrono::steady_clock::now() - flushed_ > kFlushTime) {
        flush_pending(std::chrono::milliseconds(0));
    }
}

// Leaves the records pending if another process writes.
void JpegIndex::flush_pending(std::chrono::milliseconds most_wait) {
    if (pending_.empty() || !stop_reason_.empty()) {
        return;
    }
    if (file_.get() < 0 && !make_file()) {
        return;
    }
    flushed_ = std::chrono::steady_clock::now();
    const Lock lock(file_.get(), most_wait);
    if (lock.held()) {
        append();
    } else if (lock.error() != 0 || pending_.size() > kMostPending) {
        stop(lock.error() != 0 ? std::strerror(lock.error()) : "another process keeps the file locked");
    }
}

// Needs the lock. If not all is written, the next process that appends cuts off the rest.
void JpegIndex::append() {
    read_records();
    std::vector<std::byte> news;
    if (end_ == 0) {
        const auto magic = std::as_bytes(std::span(kMagic));
        news.assign(magic.begin(), magic.end());
    }
    for (std::span<const std::byte> rest = pending_; !rest.empty();) {
        RecordHeader header;
        std::memcpy(&header, rest.data(), sizeof header);
        const std::size_t bytes = sizeof header + header.bytes;
        const auto known = places_.find(header.image_hash);
        if (known == places_.end() || known->second.points < header.points || known->second.size != header.image_size) {
            news.insert(news.end(), rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(bytes));
        }
        rest = rest.subspan(bytes);
    }
    pending_.clear();
    if (::ftruncate(file_.get(), static_cast<off_t>(end_)) != 0 ||
        write_bytes(file_.get(), news, end_) != news.size()) {
        stop(errno_text());
    }
    read_records();
}

void JpegIndex::stop(const std::string& why) {
    stop_reason_ = fmt::format("{}: {}", path_.string(), why);
    pending_ = {};
}

std::int64_t JpegIndex::images() const {
    const std::lock_guard guard(mutex_);
    return static_cast<std::int64_t>(places_.size());
}

std::int64_t JpegIndex::bytes() const {
    const std::lock_guard guard(mutex_);
    return static_cast<std::int64_t>(end_);
}

std::string JpegIndex::stop_reason() const {
    const std::lock_guard guard(mutex_);
    return stop_reason_;
}

}  // namespace stoker
