// liblmdb forbids a process to open a file twice. So there is one table of open environments per process, by device and
// inode and not by name, because a file has many names. The table counts users itself and opens and closes under its
// lock: an environment that is about to be closed must not be opened a second time.
#include "stoker/formats/lmdb/lmdb_pin.h"

#include <lmdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <mutex>
#include <tuple>

#include "stoker/base/error.h"

namespace stoker {
namespace {

void check(int code, const std::string& path, const char* expected) {
    switch (code) {
        case MDB_SUCCESS:
            return;
        case MDB_CORRUPTED:
        case MDB_INVALID:
        case MDB_VERSION_MISMATCH:
            throw DataError({.path = path}, {.where = "lmdb", .expected = expected, .got = ::mdb_strerror(code)});
        default:
            throw IoError({.where = path, .expected = expected, .got = ::mdb_strerror(code)});
    }
}

// Which file, whatever its name; and in which process, since an environment does not survive a fork.
struct FileId {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    pid_t process = 0;

    bool operator<(const FileId& other) const {
        return std::tie(device, inode, process) < std::tie(other.device, other.inode, other.process);
    }
};

FileId id_of(const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) {
        throw IoError({.where = path, .expected = "a readable file", .got = errno_text()});
    }
    return {.device = info.st_dev, .inode = info.st_ino, .process = ::getpid()};
}

struct Environment {
    MDB_env* handle = nullptr;
    int users = 0;
};

struct Table {
    std::mutex mutex;
    std::map<FileId, Environment> open;
};

Table& table() {
    static Table all;
    return all;
}

using Handle = std::unique_ptr<MDB_env, decltype(&::mdb_env_close)>;

// Where the place is not ours to write to, nobody is known to write, and no lock file is made.
Handle open_environment(const std::string& path) {
    const std::filesystem::path file(path);
    const bool folder = file.filename() == "data.mdb";
    const std::string name = folder ? (file.has_parent_path() ? file.parent_path().string() : ".") : path;
    for (const unsigned lock : {0U, static_cast<unsigned>(MDB_NOLOCK)}) {
        MDB_env* created = nullptr;
        check(::mdb_env_create(&created), path, "an LMDB environment");
        Handle handle(created, &::mdb_env_close);
        check(::mdb_env_set_maxreaders(created, 1024), path, "room for readers");
        const unsigned flags = MDB_RDONLY | MDB_NOTLS | lock | (folder ? 0U : static_cast<unsigned>(MDB_NOSUBDIR));
        const int code = ::mdb_env_open(created, name.c_str(), flags, 0644);
        const bool no_lock = code == EACCES || code == EPERM || code == EROFS || code == ENOLCK || code == ENOTSUP;
        if (lock == 0 && no_lock) {
            continue;
        }
        check(code, path, "an LMDB environment that can be opened");
        int dead = 0;  // what killed processes left behind would fill the table of readers
        check(::mdb_reader_check(created, &dead), path, "a table of readers");
        return handle;
    }
    throw InternalError({.where = path, .expected = "two attempts to open it", .got = "none that ended"});
}

}  // namespace

// A place in the table, and what is left of it when the last user is gone: nothing.
class LmdbPin::Lease {
  public:
    explicit Lease(const std::string& path) : id_(id_of(path)) {
        Table& all = table();
        const std::lock_guard lock(all.mutex);
        auto found = all.open.find(id_);
        if (found == all.open.end()) {
            found = all.open.emplace(id_, Environment{.handle = open_environment(path).release()}).first;
        }
        ++found->second.users;
        handle_ = found->second.handle;
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() {
        if (!own()) {
            return;
        }
        Table& all = table();
        const std::lock_guard lock(all.mutex);
        const auto found = all.open.find(id_);
        if (--found->second.users == 0) {
            ::mdb_env_close(found->second.handle);
            all.open.erase(found);
        }
    }
    MDB_env* handle() const { return handle_; }
    bool own() const { return id_.process == ::getpid(); }

  private:
    FileId id_;
    MDB_env* handle_ = nullptr;
};

LmdbPin::LmdbPin(const std::string& path) : environment_(std::make_unique<Lease>(path)) {
    check(::mdb_txn_begin(environment_->handle(), nullptr, MDB_RDONLY, &transaction_), path,
          "a transaction (was the file enlarged while this process reads it?)");
}

LmdbPin::~LmdbPin() {
    if (environment_->own()) {
        ::mdb_txn_abort(transaction_);
    }
}

std::uint64_t LmdbPin::state() const {
    return ::mdb_txn_id(transaction_);
}

bool LmdbPin::locked() const {
    unsigned flags = 0;
    return ::mdb_env_get_flags(environment_->handle(), &flags) == MDB_SUCCESS && (flags & MDB_NOLOCK) == 0;
}

}  // namespace stoker
