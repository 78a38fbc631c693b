// Every file has a SessionLog message with status START after its version. TensorBoard then drops events of that step
// and later from earlier files; it ignores the first START of a folder.
#include "stoker/track/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <fmt/format.h>

#include "stoker/base/crc32c.h"
#include "stoker/base/error.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr std::string_view kSuffix = ".stoker";

// ---- protobuf: a field is a key (field number and wire type), then the value ----

enum Kind : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
        out += static_cast<char>(value | 0x80);
    }
    out += static_cast<char>(value);
}

template <typename Unsigned>
void put_fixed(std::string& out, Unsigned value) {
    for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
        out += static_cast<char>(value >> (8 * i) & 0xff);
    }
}

void put_key(std::string& out, std::uint32_t field, Kind kind) {
    put_varint(out, field << 3 | kind);
}

void put_bytes(std::string& out, std::uint32_t field, std::string_view bytes) {
    put_key(out, field, kBytes);
    put_varint(out, bytes.size());
    out += bytes;
}

// ---- the messages, with the field numbers of TensorFlow's event.proto and summary.proto ----

std::string event_at(double wall_time, std::int64_t step) {
    std::string event;
    put_key(event, 1, kFixed64);
    put_fixed(event, std::bit_cast<std::uint64_t>(wall_time));
    if (step != 0) {
        put_key(event, 2, kVarint);
        put_varint(event, static_cast<std::uint64_t>(step));
    }
    return event;
}

std::string version_event(double wall_time) {
    std::string event = event_at(wall_time, 0);
    put_bytes(event, 3, "brain.Event:2");
    return event;
}

std::string start_event(double wall_time, std::int64_t step) {
    constexpr std::uint64_t kStart = 1;
    std::string log;
    put_key(log, 1, kVarint);
    put_varint(log, kStart);
    std::string event = event_at(wall_time, step);
    put_bytes(event, 7, log);
    return event;
}

std::string scalar_value(const Scalar& scalar) {
    std::string value;
    put_bytes(value, 1, scalar.tag);
    put_key(value, 2, kFixed32);
    put_fixed(value, std::bit_cast<std::uint32_t>(static_cast<float>(scalar.value)));
    return value;
}

std::uint32_t masked_crc(std::string_view bytes) {
    return masked_crc32c(as_bytes(bytes));
}

// ---- names ----

std::string host_name() {
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') {
        return "localhost";
    }
    std::string host = name.data();
    std::ranges::replace_if(
        host, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '_'; }, '-');
    return host;
}

// The seconds in the name of the folder's newest event file; 0 if there is none.
std::int64_t newest_in(const fs::path& folder) {
    std::int64_t newest = 0;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none)) {
        const std::string name = entry.path().filename().string();
        std::int64_t seconds = 0;
        if (name.starts_with(kPrefix)) {
            std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), seconds);
        }
        newest = std::max(newest, seconds);
    }
    return newest;
}

}  // namespace

EventFile::EventFile(const EventFileOptions& options) {
    std::error_code error;
    fs::create_directories(options.folder, error);
    if (error) {
        throw errno_error(options.folder.string(), "a folder that can be created", error.value());
    }
    const double begun = options.wall_time > 0 ? options.wall_time : wall_time_now();
    auto seconds = std::max(static_cast<std::int64_t>(begun), newest_in(options.folder) + 1);
    do {
        path_ = options.folder / fmt::format("{}{:010}.{}.{}{}", kPrefix, seconds++, host_name(), ::getpid(), kSuffix);
        file_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
    } while (file_.get() < 0 && errno == EEXIST);
    if (file_.get() < 0) {
        throw errno_error(path_.string(), "a file that can be created");
    }
    record(version_event(begun));
    record(start_event(begun, options.first_step));
    flush();
}

EventFile::~EventFile() {
    try {
        flush();
    } catch (const IoError&) {  // callers that need the error call flush
    }
}

void EventFile::add(std::int64_t step, double wall_time, std::span<const Scalar> scalars) {
    std::string summary;
    for (const Scalar& scalar : scalars) {
        put_bytes(summary, 1, scalar_value(scalar));
    }
    std::string event = event_at(wall_time, step);
    put_bytes(event, 5, summary);
    record(event);
    constexpr std::size_t kFlushAt = std::size_t{1} << 16;
    if (pending_.size() >= kFlushAt) {
        flush();
    }
}

void EventFile::record(std::string_view message) {
    std::string length;
    put_fixed(length, std::uint64_t{message.size()});
    pending_ += length;
    put_fixed(pending_, masked_crc(length));
    pending_ += message;
    put_fixed(pending_, masked_crc(message));
}

void EventFile::flush() {
    const std::size_t done = write_bytes(file_.get(), as_bytes(pending_));
    const int reason = errno;
    pending_.erase(0, done);  // after a failure a later flush continues in the middle of the record
    if (!pending_.empty()) {
        throw errno_error(path_.string(), "a file that can be written", reason);
    }
}

bool is_event_file(const fs::path& path) {
    const std::string name = path.filename().string();
    return name.starts_with(kPrefix) && name.ends_with(kSuffix);
}

double wall_time_now() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace stoker
