// The system calls behind file.h. Every error names the path and the reason.
#include "stoker/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/map_damage.h"

namespace stoker {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const char* expected) {
    throw errno_error(path.string(), expected);
}

// Repeats a system call that a signal interrupted (EINTR): checkpoints are written after SIGTERM.
template <typename Call>
auto uninterrupted(Call call) {
    auto result = call();
    while (result < 0 && errno == EINTR) {
        result = call();
    }
    return result;
}

int open_file(const std::filesystem::path& path, int flags) {
    return uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); });
}

const char* type_text(mode_t mode) {
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a named pipe"
           : S_ISSOCK(mode) ? "a socket"
           : S_ISCHR(mode)  ? "a character device"
                            : "a block device";
}

// `path()` returns the path for a message. It is a function because building a path takes longer than fstat.
template <typename Path>
struct stat file_stat(int fd, Path path) {
    struct stat info {};
    if (::fstat(fd, &info) != 0) {
        fail(path(), "a readable file");
    }
    if (!S_ISREG(info.st_mode)) {
        throw IoError({.where = path().string(), .expected = "a regular file", .got = type_text(info.st_mode)});
    }
    return info;
}

// Non-blocking: opening a named pipe in an image folder would otherwise wait for ever.
constexpr int kReadFlags = O_RDONLY | O_NONBLOCK;

Descriptor opened(const std::filesystem::path& path, int flags, const char* expected) {
    Descriptor file(open_file(path, flags));
    if (file.get() < 0) {
        fail(path, expected);
    }
    return file;
}

// Reads only what is in the page cache (RWF_NOWAIT). Returns the number of bytes, -1 for none; empty if the file system
// does not support this.
std::optional<ssize_t> read_in_memory(int fd, std::span<std::byte> out, off_t offset) {
    const iovec all{.iov_base = out.data(), .iov_len = out.size()};
    const ssize_t got = ::preadv2(fd, &all, 1, offset, RWF_NOWAIT);
    return got >= 0 || errno == EAGAIN ? std::optional(got) : std::nullopt;
}

// Reads a whole file of `size` bytes; less if it is cut short meanwhile. Returns true if all bytes were in the page
// cache, false if some were not, empty if the file system cannot say.
template <typename Path>
std::optional<bool> read_all(int fd, off_t size, Path path, Buffer& buffer) {
    buffer.resize(static_cast<std::size_t>(size));
    const std::optional<ssize_t> first = read_in_memory(fd, buffer.bytes(), 0);
    std::size_t done = static_cast<std::size_t>(std::max<ssize_t>(first.value_or(0), 0));
    const bool was_cached = done == buffer.size();
    if (!was_cached) {
        done += read_bytes(fd, buffer.bytes().subspan(done), done);
        if (done < buffer.size() && errno != 0) {
            fail(path(), "a readable file");
        }
    }
    buffer.resize(done);
    return first ? std::optional(was_cached) : std::nullopt;
}

// The errors of open(2) that concern one name, not the disk, the process or the system.
bool concerns_name(int code) {
    constexpr std::array kCodes = {ENOENT, ENOTDIR, EACCES, EPERM, ELOOP, ENAMETOOLONG, ENXIO, ENODEV};
    return std::ranges::find(kCodes, code) != kCodes.end();
}

// Describes the entry of a folder that could not be opened, with error `code`.
std::string entry_text(int folder, const std::filesystem::path& name, int code) {
    struct stat entry {};
    const bool known = ::fstatat(folder, name.c_str(), &entry, AT_SYMLINK_NOFOLLOW) == 0;
    if (known && S_ISLNK(entry.st_mode) && (code == ENOENT || code == ENOTDIR)) {
        return "a link to a file that does not exist";
    }
    if (known && S_ISLNK(entry.st_mode) && code == ELOOP) {
        return "a link that leads back to itself";
    }
    if (code == ENOENT || code == ENOTDIR) {
        return "no file of that name";
    }
    const bool special = ::fstatat(folder, name.c_str(), &entry, 0) == 0 && !S_ISREG(entry.st_mode);
    return special ? type_text(entry.st_mode) : "a file that cannot be opened: " + errno_text(code);
}

std::string temporary_name(const std::filesystem::path& target, int number) {
    return fmt::format("{}.tmp-{}-{}", target.string(), ::getpid(), number);
}

}  // namespace

Descriptor::~Descriptor() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
}

MappedFile::MappedFile(const std::filesystem::path& path) : MappedFile(File(path)) {}

MappedFile::MappedFile(const File& file) : size_(file.info().size) {
    if (size_ == 0) {
        return;
    }
    void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.file_.get(), 0);
    if (mapped == MAP_FAILED) {
        fail(file.path_, "a file that can be mapped");
    }
    data_ = static_cast<const std::byte*>(mapped);
    try {
        register_map({data_, size_}, file.path_);
    } catch (...) {
        ::munmap(mapped, size_);
        throw;
    }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) {
        unregister_map(data_);
        ::munmap(const_cast<std::byte*>(data_), size_);
    }
}

File::File(const std::filesystem::path& path) : path_(path), file_(opened(path, kReadFlags, "a readable file")) {}

void File::read(std::uint64_t offset, std::span<std::byte> out) const {
    const std::size_t done = read_bytes(file_.get(), out, offset);
    if (done == out.size()) {
        return;
    }
    if (errno != 0) {
        fail(path_, "a readable file");
    }
    throw IoError({.where = path_.string(),
                   .expected = fmt::format("{} more bytes at offset {}", out.size() - done, offset + done),
                   .got = "the end of the file",
                   .hint = "another process has cut it short"});
}

FileInfo File::info() const {
    const struct stat found = file_stat(file_.get(), [this] { return path_; });
    const auto nanoseconds = [](const timespec& time) {
        return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
    };
    return {.size = static_cast<std::uint64_t>(found.st_size),
            .modified_ns = nanoseconds(found.st_mtim),
            .changed_ns = nanoseconds(found.st_ctim),
            .inode = found.st_ino};
}

bool File::in_memory(std::uint64_t offset, std::uint64_t size) const {
    std::byte byte{};
    const auto got = read_in_memory(file_.get(), std::span(&byte, 1), static_cast<off_t>(offset + size / 2));
    return got.value_or(-1) == 1;
}

void File::will_need(std::uint64_t offset, std::uint64_t size) const {
    if (!in_memory(offset, size)) {
        ::posix_fadvise(file_.get(), static_cast<off_t>(offset), static_cast<off_t>(size), POSIX_FADV_WILLNEED);
    }
}

std::string File::descriptor_path() const {
    return fmt::format("/proc/self/fd/{}", file_.get());
}

bool File::scarce() const {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        fail(path_, "a limit on open files");
    }
    return limit.rlim_cur != RLIM_INFINITY && static_cast<rlim_t>(file_.get()) >= limit.rlim_cur / 2;
}

Folder::Folder(const std::filesystem::path& path)
    : path_(path), folder_(opened(path.empty() ? "." : path, O_RDONLY | O_DIRECTORY, "a readable folder")) {}

Descriptor Folder::open(std::string_view name) const {
    std::array<char, PATH_MAX> terminated;
    if (name.size() >= terminated.size()) {
        errno = ENAMETOOLONG;
        return Descriptor();
    }
    *std::ranges::copy(name, terminated.begin()).out = '\0';
    return Descriptor(
        uninterrupted([&] { return ::openat(folder_.get(), terminated.data(), kReadFlags | O_CLOEXEC); }));
}

bool Folder::read_file(std::string_view name, Buffer& buffer) const {
    const auto begin = std::chrono::steady_clock::now();
    const auto refuse = [&](std::string got) {
        throw DataError({.path = path_.string(), .key = std::string(name)},
                        {.where = "file", .expected = "a readable file", .got = std::move(got)});
    };
    const Descriptor file = open(name);
    struct stat info {};
    if (file.get() < 0) {
        const int code = errno;
        if (!concerns_name(code)) {
            throw errno_error((path_ / name).string(), "a readable file", code);
        }
        if (::fstat(folder_.get(), &info) == 0 && info.st_nlink == 0) {
            throw IoError({.where = path_.string(), .expected = "the folder of the data", .got = "a removed folder"});
        }
        refuse(entry_text(folder_.get(), name, code));
    }
    if (::fstat(file.get(), &info) != 0) {
        fail(path_ / name, "a readable file");
    }
    if (!S_ISREG(info.st_mode)) {
        refuse(type_text(info.st_mode));
    }
    const std::optional<bool> was_cached = read_all(
        file.get(), info.st_size, [&] { return path_ / name; }, buffer);
    return was_cached.value_or(std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(1));
}

bool Folder::will_need(std::string_view name) const noexcept {
    const Descriptor file = open(name);
    if (file.get() < 0) {
        return true;
    }
    std::byte byte{};
    const bool is_cached = read_in_memory(file.get(), std::span(&byte, 1), 0).value_or(-1) >= 0;
    if (!is_cached) {
        ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_WILLNEED);
    }
    return is_cached;
}

bool is_file(const std::filesystem::path& path) {
    std::error_code unknown;
    return std::filesystem::is_regular_file(path, unknown);
}

bool is_folder(const std::filesystem::path& path) {
    std::error_code unknown;
    return std::filesystem::is_directory(path, unknown);
}

std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> found;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
        found.push_back(entry->path());
    }
    if (error) {
        throw errno_error(folder.string(), "a readable folder", error.value());
    }
    return found;
}

std::string read_text(const std::filesystem::path& path) {
    const Descriptor file = opened(path, kReadFlags, "a readable file");
    Buffer buffer;
    const auto shown = [&] { return path; };
    read_all(file.get(), file_stat(file.get(), shown).st_size, shown, buffer);
    return {reinterpret_cast<const char*>(buffer.data()), buffer.size()};
}

TemporaryFile::TemporaryFile(const std::filesystem::path& target, bool nameless) : file_(create(target, nameless)) {}

TemporaryFile::~TemporaryFile() {
    if (!name_.empty()) {
        ::unlink(name_.c_str());
    }
}

bool TemporaryFile::rename_to(const std::filesystem::path& target) {
    if (name_.empty() && !link(target)) {
        return false;
    }
    if (::rename(name_.c_str(), target.c_str()) != 0) {
        fail(target, "a name to write to");
    }
    name_.clear();
    return true;
}

// Gives the nameless file a name, which `rename` needs to replace the target.
bool TemporaryFile::link(const std::filesystem::path& target) {
    const std::string file = fmt::format("/proc/self/fd/{}", file_.get());
    for (int number = 0;; ++number) {
        const std::string name = temporary_name(target, number);
        if (::linkat(AT_FDCWD, file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
            name_ = name;
            return true;
        }
        if (errno != EEXIST) {
            return false;
        }
    }
}

Descriptor TemporaryFile::create(const std::filesystem::path& target, bool nameless) {
    static const bool has_proc = ::access("/proc/self/fd", X_OK) == 0;
    const std::filesystem::path folder = target.has_parent_path() ? target.parent_path() : ".";
    if (Descriptor file(nameless && has_proc ? open_file(folder, O_WRONLY | O_TMPFILE) : -1); file.get() >= 0) {
        return file;
    }
    for (int number = 0;; ++number) {
        name_ = temporary_name(target, number);
        Descriptor file(open_file(name_, O_WRONLY | O_CREAT | O_EXCL));
        if (file.get() >= 0) {
            return file;
        }
        if (errno != EEXIST) {
            fail(target, "a place to write");
        }
    }
}

void write_file(const std::filesystem::path& path, std::span<const std::span<const std::byte>> pieces, bool sync) {
    for (const bool nameless : {true, false}) {
        TemporaryFile file(path, nameless);
        for (const auto piece : pieces) {
            if (write_bytes(file.get(), piece) < piece.size()) {
                fail(path, "room to write");
            }
        }
        if (sync) {
            sync_file(file.get(), path);
        }
        if (file.rename_to(path)) {
            break;
        }
    }
    if (sync) {
        sync_directory(path.has_parent_path() ? path.parent_path() : std::filesystem::path("."));
    }
}

void write_file(const std::filesystem::path& path, std::string_view text) {
    const std::span<const std::byte> piece = as_bytes(text);
    write_file(path, std::span(&piece, 1));
}

void sync_file(int fd, const std::filesystem::path& path) {
    if (uninterrupted([&] { return ::fsync(fd); }) != 0) {
        fail(path, "the file to reach the disk");
    }
}

void sync_directory(const std::filesystem::path& directory) {
    const Descriptor handle = opened(directory, O_RDONLY | O_DIRECTORY, "a directory");
    // Some file systems cannot sync a directory and answer EINVAL. Nothing more can be done there.
    if (uninterrupted([&] { return ::fsync(handle.get()); }) != 0 && errno != EINVAL) {
        fail(directory, "the directory to reach the disk");
    }
}

std::size_t read_bytes(int fd, std::span<std::byte> out, std::uint64_t offset) {
    std::size_t done = 0;
    while (done < out.size()) {
        const ssize_t got = uninterrupted(
            [&] { return ::pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done)); });
        if (got <= 0) {
            errno = got == 0 ? 0 : errno;
            break;
        }
        done += static_cast<std::size_t>(got);
    }
    return done;
}

std::size_t write_bytes(int fd, std::span<const std::byte> bytes, std::optional<std::uint64_t> offset) {
    std::size_t done = 0;
    while (done < bytes.size()) {
        const std::span<const std::byte> rest = bytes.subspan(done);
        const ssize_t written = uninterrupted([&] {
            return offset ? ::pwrite(fd, rest.data(), rest.size(), static_cast<off_t>(*offset + done))
                          : ::write(fd, rest.data(), rest.size());
        });
        if (written < 0) {
            break;
        }
        done += static_cast<std::size_t>(written);
    }
    return done;
}

}  // namespace stoker
