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
#include <exception>
#include <fmt/format.h>
#include <limits>
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

constexpr std::uint32_t kMostRecordBytes = 1 << 23;  // an image of kMaxPixels has fewer
constexpr std::size_t kFlushBytes = 64 * 1024;
constexpr std::size_t kMostPending = 2 * kMostRecordBytes;
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

JpegIndex::JpegIndex(std::filesystem::path file, std::uint64_t most_bytes)
    : path_(std::move(file)), most_bytes_(most_bytes), flushed_(std::chrono::steady_clock::now()) {
    try {
        open();
    } catch (const std::exception& error) {
        stop(error.what());
    }
}

JpegIndex::~JpegIndex() {
    flush(std::chrono::milliseconds(200));
}

void JpegIndex::open() {
    file_ = Descriptor(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    if (file_.get() < 0 && errno != ENOENT) {
        stop(errno_text());
        file_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    }
    if (file_.get() >= 0) {
        read_records();
    }
}

// False: it cannot be made.
bool JpegIndex::make_file() {
    if (file_.get() >= 0) {
        return true;
    }
    std::error_code failed;
    std::filesystem::create_directories(path_.parent_path(), failed);
    Descriptor file(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (file.get() < 0) {
        stop(errno_text());
        return false;
    }
    const std::lock_guard guard(mutex_);
    file_ = std::move(file);
    return true;
}

// Those behind end_, up to the first incomplete one. False: the file is not one that this index has read before, since
// another process found damage and cut it.
bool JpegIndex::read_records() {
    std::array<char, kMagic.size()> magic{};
    struct stat info {};
    if (::fstat(file_.get(), &info) != 0 || static_cast<std::uint64_t>(info.st_size) < end_ ||
        (read_bytes(file_.get(), std::as_writable_bytes(std::span(magic)), 0) == magic.size() && magic != kMagic)) {
        return false;
    }
    if (static_cast<std::size_t>(info.st_size) < kMagic.size()) {
        return true;
    }
    std::uint64_t end = std::max<std::uint64_t>(end_, kMagic.size());
    std::vector<std::pair<std::uint64_t, Place>> news;
    Buffer buffer;
    for (bool more = true; more;) {
        buffer.resize(std::min<std::uint64_t>(static_cast<std::uint64_t>(info.st_size) - end, kReadBytes));
        const std::size_t got = read_bytes(file_.get(), buffer.bytes(), end);
        std::span<const std::byte> rest = buffer.bytes().first(got);
        while (const std::optional<RecordHeader> header = header_at(rest)) {
            const std::size_t bytes = sizeof *header + header->bytes;
            news.push_back({header->image_hash,
                            {.offset = end,
                             .size = header->image_size,
                             .bytes = static_cast<std::uint32_t>(bytes),
                             .points = header->points}});
            end += bytes;
            rest = rest.subspan(bytes);
        }
        more = rest.size() < got;  // otherwise nothing is left, or an incomplete or damaged record
    }
    end_ = end;
    const std::lock_guard guard(mutex_);
    for (const auto& [hash, found] : news) {
        Place& place = places_[hash];
        if (place.points <= found.points || place.size != found.size) {
            place = found;
        }
    }
    bytes_ = end_;
    return true;
}

EntryPoints JpegIndex::find(const JpegKey& key) noexcept {
    try {
        Place place;
        {
            const std::lock_guard guard(mutex_);
            const auto found = places_.find(key.hash);
            if (found == places_.end() || found->second.size != key.size || found->second.bytes == 0) {
                return {};
            }
            place = found->second;
        }
        thread_local std::vector<std::byte> record;
        record.resize(place.bytes);
        if (read_bytes(file_.get(), record, place.offset) == record.size()) {
            const std::optional<RecordHeader> header = header_at(record);
            if (header && header->image_hash == key.hash && header->image_size == key.size) {
                return unpack_points(std::span(record).subspan(sizeof *header)).value_or(EntryPoints());
            }
        }
        const std::lock_guard guard(mutex_);  // the record was cut off, or damaged: its points may be added again
        const auto found = places_.find(key.hash);
        if (found != places_.end() && found->second.offset == place.offset) {
            places_.erase(found);
        }
    } catch (const std::exception& error) {
        stop(error.what());
    }
    return {};
}

void JpegIndex::add(const JpegKey& key, const EntryPoints& points) noexcept {
    try {
        if (!takes_points()) {
            return;
        }
        RecordHeader header{
            .image_hash = key.hash, .image_size = key.size, .points = static_cast<std::uint32_t>(points.points.size())};
        thread_local std::vector<std::byte> record;
        record.assign(sizeof header, std::byte{0});
        pack_points(points, record);
        header.bytes = static_cast<std::uint32_t>(record.size() - sizeof header);
        std::memcpy(record.data(), &header, sizeof header);
        header.hash = record_hash(record);
        std::memcpy(record.data(), &header.hash, sizeof header.hash);
        {
            const std::lock_guard guard(mutex_);
            if (header.bytes > kMostRecordBytes) {
                return;
            }
            pending_.insert(pending_.end(), record.begin(), record.end());
            if (pending_.size() < kFlushBytes && std::chrono::steady_clock::now() - flushed_ < kFlushTime) {
                return;
            }
        }
        flush();
    } catch (const std::exception& error) {
        stop(error.what());
    }
}

void JpegIndex::refuse(const JpegKey& key) noexcept {
    try {
        const std::lock_guard guard(mutex_);
        places_[key.hash] = {.size = key.size, .points = std::numeric_limits<std::uint32_t>::max()};
    } catch (const std::exception& error) {
        stop(error.what());
    }
}

bool JpegIndex::flush(std::chrono::milliseconds most_wait) noexcept {
    try {
        std::unique_lock writing(file_mutex_, std::try_to_lock);
        if (!writing && most_wait.count() == 0) {
            return false;  // another thread writes
        }
        if (!writing) {
            writing.lock();
        }
        std::vector<std::byte> records;
        {
            const std::lock_guard guard(mutex_);
            if (pending_.empty() || !stop_reason_.empty()) {
                return pending_.empty() && stop_reason_.empty();
            }
            flushed_ = std::chrono::steady_clock::now();
        }
        if (!make_file()) {
            return false;
        }
        const Lock lock(file_.get(), most_wait);
        if (!lock.held()) {
            if (lock.error() != 0) {
                stop(std::strerror(lock.error()));
            } else if (pending_bytes() > kMostPending) {
                stop("another process keeps it locked");
            }
            return false;
        }
        {
            const std::lock_guard guard(mutex_);
            records.swap(pending_);
        }
        return append(records);
    } catch (const std::exception& error) {
        stop(error.what());
        return false;
    }
}

// Records with more points than those known.
std::vector<std::byte> JpegIndex::unknown_records(std::span<const std::byte> records) const {
    std::vector<std::byte> unknown;
    const std::lock_guard guard(mutex_);
    while (!records.empty()) {
        RecordHeader header;
        std::memcpy(&header, records.data(), sizeof header);
        const std::size_t bytes = sizeof header + header.bytes;
        const auto known = places_.find(header.image_hash);
        if (known == places_.end() || known->second.points < header.points || known->second.size != header.image_size) {
            unknown.insert(unknown.end(), records.begin(), records.begin() + static_cast<std::ptrdiff_t>(bytes));
        }
        records = records.subspan(bytes);
    }
    return unknown;
}

// Needs the lock. If not all is written, the next process that appends cuts off the rest.
bool JpegIndex::append(std::span<const std::byte> records) {
    if (!read_records()) {
        const std::lock_guard guard(mutex_);
        std::erase_if(places_, [](const auto& place) { return place.second.bytes != 0; });
        end_ = 0;
    }
    if (end_ == 0 && !read_records()) {  // another file: it is begun anew
        end_ = 0;
    }
    const auto magic = std::as_bytes(std::span(kMagic));
    std::vector<std::byte> unknown = unknown_records(records);
    if (end_ == 0) {
        unknown.insert(unknown.begin(), magic.begin(), magic.end());
    }
    if (end_ + unknown.size() > most_bytes_) {
        stop(fmt::format("it has {} bytes, of at most {}", end_, most_bytes_));
        return false;
    }
    struct stat info {};
    const bool longer = ::fstat(file_.get(), &info) == 0 && static_cast<std::uint64_t>(info.st_size) > end_;
    if ((longer && ::ftruncate(file_.get(), static_cast<off_t>(end_)) != 0) ||
        write_bytes(file_.get(), unknown, end_) != unknown.size()) {
        stop(errno_text());
        return false;
    }
    return read_records();
}

void JpegIndex::stop(const std::string& why) noexcept {
    const std::lock_guard guard(mutex_);
    pending_ = {};
    try {
        stop_reason_ = fmt::format("{}: {}", path_.string(), why);
    } catch (const std::exception&) {
        stop_reason_ = "no memory";  // short enough to need none
    }
}

std::int64_t JpegIndex::images() const {
    const std::lock_guard guard(mutex_);
    return std::ranges::count_if(places_, [](const auto& place) { return place.second.bytes != 0; });
}

std::int64_t JpegIndex::bytes() const {
    const std::lock_guard guard(mutex_);
    return static_cast<std::int64_t>(bytes_);
}

std::size_t JpegIndex::pending_bytes() const {
    const std::lock_guard guard(mutex_);
    return pending_.size();
}

bool JpegIndex::takes_points() const {
    const std::lock_guard guard(mutex_);
    return stop_reason_.empty();
}

std::string JpegIndex::stop_reason() const {
    const std::lock_guard guard(mutex_);
    return stop_reason_;
}

}  // namespace stoker
