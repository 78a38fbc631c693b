// A process must not open an LMDB file twice, so the environments of the process are shared. They are in a table by
// device and inode, because a file may have several names. Opening and closing happen under the table's lock, so that a
// file is not opened again while its environment is being closed.
#include "stoker/formats/lmdb/lmdb_snapshot.h"

#include <lmdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <mutex>

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
            if (code > 0) {
                throw errno_error(path, expected, code);
            }
            throw IoError({.where = path, .expected = expected, .got = ::mdb_strerror(code)});
    }
}

// The process is part of it, since an environment must not be used after a fork.
struct FileId {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    pid_t process = 0;

    auto operator<=>(const FileId&) const = default;  // NOLINT(modernize-use-nullptr): a false alarm
};

FileId id_of(const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) {
        throw errno_error(path, "a readable file");
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

// Without the right to make a lock file, the environment is opened without one.
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
        int dead = 0;  // removes entries of killed processes, which would fill the table
        check(::mdb_reader_check(created, &dead), path, "a table of readers");
        return handle;
    }
    throw InternalError({.where = path, .expected = "two attempts to open it", .got = "none that ended"});
}

}  // namespace

// A user of an environment in the table. The last one closes it.
class LmdbTransaction::SharedEnvironment {
  public:
    explicit SharedEnvironment(const std::string& path) : id_(id_of(path)) {
        Table& all = table();
        const std::lock_guard lock(all.mutex);
        auto found = all.open.find(id_);
        if (found == all.open.end()) {
            found = all.open.emplace(id_, Environment{.handle = open_environment(path).release()}).first;
        }
        ++found->second.users;
        handle_ = found->second.handle;
    }
    SharedEnvironment(const SharedEnvironment&) = delete;
    SharedEnvironment& operator=(const SharedEnvironment&) = delete;
    ~SharedEnvironment() {
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

LmdbTransaction::LmdbTransaction(const std::string& path) : environment_(std::make_unique<SharedEnvironment>(path)) {
    check(::mdb_txn_begin(environment_->handle(), nullptr, MDB_RDONLY, &transaction_), path,
          "a transaction (was the file enlarged while this process reads it?)");
}

LmdbTransaction::~LmdbTransaction() {
    if (environment_->own()) {
        ::mdb_txn_abort(transaction_);
    }
}

std::uint64_t LmdbTransaction::number() const {
    return ::mdb_txn_id(transaction_);
}

bool LmdbTransaction::locked() const {
    unsigned flags = 0;
    return ::mdb_env_get_flags(environment_->handle(), &flags) == MDB_SUCCESS && (flags & MDB_NOLOCK) == 0;
}

}  // namespace stoker
