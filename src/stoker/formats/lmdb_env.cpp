// One table of open environments per process, by device and inode and not by name, because a file has many names. The
// table counts users itself and opens and closes under its lock: an environment that is about to be closed must not be
// opened a second time.
#include "stoker/formats/lmdb_env.h"

#include <lmdb.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <system_error>
#include <tuple>

#include "stoker/base/error.h"
#include "stoker/formats/byte_file.h"
#include "stoker/formats/lmdb_meta.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDataName = "data.mdb";

[[noreturn]] void fail(int code, const std::string& path, const char* expected, std::string_view key = {}) {
    const char* got = ::mdb_strerror(code);
    switch (code) {
        case MDB_CORRUPTED:
        case MDB_PAGE_NOTFOUND:
        case MDB_INVALID:
        case MDB_CURSOR_FULL:
        case MDB_BAD_VALSIZE:
            throw DataError({.path = path, .key = std::string(key)},
                            {.where = "lmdb", .expected = expected, .got = got});
        default:
            throw IoError(
                {.where = key.empty() ? path : fmt::format("{}: {}", path, key), .expected = expected, .got = got});
    }
}

void check(int code, const std::string& path, const char* expected) {
    if (code != MDB_SUCCESS) {
        fail(code, path, expected);
    }
}

// Which file, whatever its name; and in which process, since an environment does not survive a fork.
struct FileId {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    pid_t process = 0;

    bool operator==(const FileId&) const = default;
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
    MDB_dbi database = 0;
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

// Readers enter themselves in a lock file, so that writers keep what they read. Where the place is not ours to write
// to, nobody is known to write, and it is read without.
Handle open_handle(const std::string& path) {
    const fs::path file(path);
    const bool folder = file.filename() == kDataName;
    const std::string name = folder ? (file.has_parent_path() ? file.parent_path().string() : ".") : path;
    // Read ahead, as LMDB has it by default: a shuffled first pass over 1 GB of 784-byte values is nearly three times
    // as fast with it.
    for (const unsigned lock : {0U, static_cast<unsigned>(MDB_NOLOCK)}) {
        MDB_env* created = nullptr;
        check(::mdb_env_create(&created), path, "an LMDB environment");
        Handle handle(created, &::mdb_env_close);
        check(::mdb_env_set_maxreaders(created, 1024), path, "room for readers");
        const unsigned flags = MDB_RDONLY | MDB_NOTLS | lock | (folder ? 0U : static_cast<unsigned>(MDB_NOSUBDIR));
        const int code = ::mdb_env_open(created, name.c_str(), flags, 0644);
        if (code == MDB_SUCCESS) {
            return handle;
        }
        const bool no_lock = code == EACCES || code == EPERM || code == EROFS || code == ENOLCK || code == ENOTSUP;
        if (lock != 0 || !no_lock) {
            fail(code, path, "an LMDB environment that can be opened");
        }
    }
    throw InternalError({.where = path, .expected = "two attempts to open it", .got = "none that ended"});
}

Environment open_environment(const std::string& path) {
    Handle handle = open_handle(path);
    int dead = 0;  // what killed processes left behind would fill the table of readers
    check(::mdb_reader_check(handle.get(), &dead), path, "a table of readers");
    MDB_txn* transaction = nullptr;
    check(::mdb_txn_begin(handle.get(), nullptr, MDB_RDONLY, &transaction), path, "a transaction");
    const std::unique_ptr<MDB_txn, decltype(&::mdb_txn_abort)> closed(transaction, &::mdb_txn_abort);
    Environment environment;
    check(::mdb_dbi_open(transaction, nullptr, 0, &environment.database), path, "the unnamed database");
    unsigned flags = 0;
    check(::mdb_dbi_flags(transaction, environment.database, &flags), path, "the unnamed database");
    if ((flags & MDB_DUPSORT) != 0) {
        throw Unsupported(
            {.where = path, .expected = "an LMDB database of one value a key", .got = "one of several (MDB_DUPSORT)"});
    }
    environment.handle = handle.release();
    return environment;
}

// The address at which the file that `inside` points into begins, as /proc/self/maps has it; null where that is not to
// be had. liblmdb does not tell.
const std::byte* find_map(const void* inside, const FileId& id) {
    const auto address = reinterpret_cast<std::uintptr_t>(inside);
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        std::uint64_t begin = 0;
        std::uint64_t end = 0;
        std::uint64_t offset = 0;
        unsigned major_number = 0;
        unsigned minor_number = 0;
        std::uint64_t inode = 0;
        // begin-end access offset major:minor inode path
        if (std::sscanf(line.c_str(), "%lx-%lx %*s %lx %x:%x %lu", &begin, &end, &offset, &major_number, &minor_number,
                        &inode) == 6 &&
            begin <= address && address < end) {
            return inode == id.inode ? reinterpret_cast<const std::byte*>(begin - offset) : nullptr;
        }
    }
    return nullptr;
}

// Threads are numbered as they come, so that those of one pool have transactions of their own.
std::size_t thread_number() {
    static std::atomic<std::size_t> threads{0};
    thread_local const std::size_t number = threads.fetch_add(1, std::memory_order_relaxed);
    return number;
}

MDB_val as_val(std::string_view key) {
    return {.mv_size = key.size(), .mv_data = const_cast<char*>(key.data())};
}

std::span<const std::byte> bytes_of(const MDB_val& value) {
    return {static_cast<const std::byte*>(value.mv_data), value.mv_size};
}

std::string_view text_of(const MDB_val& key) {
    return {static_cast<const char*>(key.mv_data), key.mv_size};
}

}  // namespace

std::optional<fs::path> find_lmdb(const fs::path& data) {
    std::error_code unknown;  // what cannot be looked at is none
    const fs::path inside = data / kDataName;
    if (fs::is_regular_file(inside, unknown)) {
        return inside;
    }
    const fs::path extension = data.extension();
    const bool named = extension == ".lmdb" || extension == ".mdb";
    return named && fs::is_regular_file(data, unknown) ? std::optional(data) : std::nullopt;
}

// A place in the table, and what is left of it when the last user is gone: nothing.
class LmdbSnapshot::Lease {
  public:
    explicit Lease(const std::string& path) : id_(id_of(path)) {
        Table& all = table();
        const std::lock_guard lock(all.mutex);
        auto found = all.open.find(id_);
        if (found == all.open.end()) {
            found = all.open.emplace(id_, open_environment(path)).first;
        }
        ++found->second.users;
        environment_ = found->second;
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() {
        if (id_.process != ::getpid()) {
            return;  // a fork's copy: closing it would be the parent's business
        }
        Table& all = table();
        const std::lock_guard lock(all.mutex);
        const auto found = all.open.find(id_);
        if (--found->second.users == 0) {
            ::mdb_env_close(found->second.handle);
            all.open.erase(found);
        }
    }
    MDB_env* handle() const { return environment_.handle; }
    bool locked() const {
        unsigned flags = 0;
        return ::mdb_env_get_flags(environment_.handle, &flags) == MDB_SUCCESS && (flags & MDB_NOLOCK) == 0;
    }
    MDB_dbi database() const { return environment_.database; }
    const FileId& id() const { return id_; }

  private:
    FileId id_;
    Environment environment_;
};

struct LmdbSnapshot::Transaction {
    Transaction() = default;
    Transaction(const Transaction&) = delete;
    Transaction& operator=(const Transaction&) = delete;
    ~Transaction() { end(); }

    void end() {
        if (cursor != nullptr) {
            ::mdb_cursor_close(cursor);
        }
        if (handle != nullptr) {
            ::mdb_txn_abort(handle);
        }
        cursor = nullptr;
        handle = nullptr;
    }

    std::mutex mutex;
    MDB_txn* handle = nullptr;
    MDB_cursor* cursor = nullptr;
    bool refused = false;  // there is no other transaction of this state to be had
};

LmdbSnapshot::LmdbSnapshot(const fs::path& data)
    : path_(data.string()), file_(data), transactions_(std::make_unique<Transaction[]>(kReaders)) {
    read_lmdb_meta(file_, path_);
    environment_ = std::make_unique<Lease>(path_);
    Transaction& first = transactions_[0];
    check(::mdb_txn_begin(environment_->handle(), nullptr, MDB_RDONLY, &first.handle), path_,
          "a transaction (was the file enlarged while this process reads it?)");
    check(::mdb_cursor_open(first.handle, environment_->database(), &first.cursor), path_, "a cursor");
    state_ = ::mdb_txn_id(first.handle);
    MDB_stat statistics{};
    check(::mdb_stat(first.handle, environment_->database(), &statistics), path_, "statistics");
    entries_ = statistics.ms_entries;
    info_ = file_.info();
    bound_ = find_bound();
    // A writer who does not know of us may change what we look at; a copy stays as it is.
    in_place_ = environment_->locked() ? InPlace(bound_) : InPlace();
    Reader one(*this, 0, std::unique_lock(first.mutex));
    if (const auto entry = one.first()) {
        map_ = find_map(entry->key.data(), environment_->id());
    }
    if (id_of(path_) != environment_->id()) {
        throw IoError({.where = path_, .expected = "a file that stays", .got = "another file of that name"});
    }
}

LmdbSnapshot::~LmdbSnapshot() {
    if (environment_->id().process != ::getpid()) {
        // A fork's copies. Their places in the table of readers, which is shared memory, are the parent's: to end them
        // here would let a writer reuse pages that the parent reads.
        static_cast<void>(transactions_.release());
        return;
    }
    transactions_.reset();  // before the environment
}

// False where a transaction of this very state cannot be had: a writer has committed, or the table of readers is full.
bool LmdbSnapshot::begin(Transaction& transaction) const {
    if (::mdb_txn_begin(environment_->handle(), nullptr, MDB_RDONLY, &transaction.handle) != MDB_SUCCESS) {
        transaction.handle = nullptr;
    } else if (::mdb_txn_id(transaction.handle) == state_ &&
               ::mdb_cursor_open(transaction.handle, environment_->database(), &transaction.cursor) == MDB_SUCCESS) {
        return true;
    }
    transaction.end();
    return false;
}

LmdbSnapshot::Reader LmdbSnapshot::reader() const {
    const std::size_t number = thread_number() % kReaders;
    Transaction& own = transactions_[number];
    std::unique_lock lock(own.mutex);
    if (own.handle == nullptr && !own.refused) {
        own.refused = !begin(own);
    }
    if (!own.refused) {
        return {*this, number, std::move(lock)};
    }
    lock.unlock();
    return {*this, 0, std::unique_lock(transactions_[0].mutex)};
}

std::optional<std::span<const std::byte>> LmdbSnapshot::Reader::find(std::string_view key) {
    if (auto entry = move(key, MDB_SET)) {
        snapshot_->check_bound(entry->value);
        return entry->value;
    }
    return std::nullopt;
}

std::optional<LmdbEntry> LmdbSnapshot::Reader::first() {
    return move({}, MDB_FIRST);
}

std::optional<LmdbEntry> LmdbSnapshot::Reader::last() {
    return move({}, MDB_LAST);
}

std::optional<LmdbEntry> LmdbSnapshot::Reader::next() {
    return move({}, MDB_NEXT);
}

std::optional<LmdbEntry> LmdbSnapshot::Reader::previous() {
    return move({}, MDB_PREV);
}

std::optional<LmdbEntry> LmdbSnapshot::Reader::at_or_after(std::string_view key) {
    return move(key, MDB_SET_RANGE);
}

std::optional<LmdbEntry> LmdbSnapshot::Reader::move(std::string_view key, int operation) {
    MDB_val found_key = as_val(key);
    MDB_val value{};
    const int code = ::mdb_cursor_get(snapshot_->transactions_[number_].cursor, &found_key, &value,
                                      static_cast<MDB_cursor_op>(operation));
    if (code == MDB_NOTFOUND) {
        return std::nullopt;
    }
    if (code != MDB_SUCCESS) {
        fail(code, snapshot_->path_, "a sound B-tree", key);
    }
    return LmdbEntry{.key = text_of(found_key), .value = bytes_of(value)};
}

// Where the pages of this state end: a map may be shorter than its file, and both longer than what belongs to it.
std::uint64_t LmdbSnapshot::find_bound() const {
    MDB_envinfo info{};
    check(::mdb_env_info(environment_->handle(), &info), path_, "the map's size");
    const std::uint64_t mapped = std::min<std::uint64_t>(info_.size, info.me_mapsize);
    const auto meta = find_lmdb_meta(file_, state_, path_);
    return meta && meta->last_page < mapped / meta->page_size ? (meta->last_page + 1) * meta->page_size : mapped;
}

void LmdbSnapshot::check_bound(std::span<const std::byte> value) const {
    const std::uint64_t offset = map_ == nullptr ? 0 : static_cast<std::uint64_t>(value.data() - map_);
    if (offset > bound_ || value.size() > bound_ - offset) {
        throw DataError({.path = path_, .offset = static_cast<std::int64_t>(offset)},
                        {.where = "lmdb",
                         .expected = fmt::format("values within the {} bytes of the pages in use", bound_),
                         .got = fmt::format("one of {} bytes", value.size())});
    }
}

std::span<const std::byte> LmdbSnapshot::load(std::span<const std::byte> value, Buffer& storage) const {
    check_bound(value);
    if (map_ == nullptr) {
        return value;
    }
    return in_place_.get(value, file_, static_cast<std::uint64_t>(value.data() - map_), storage);
}

std::span<const std::byte> LmdbSnapshot::mapped() const {
    return map_ == nullptr ? std::span<const std::byte>() : std::span(map_, static_cast<std::size_t>(bound_));
}

std::optional<LmdbSnapshot::Root> LmdbSnapshot::root() const {
    const auto meta = find_lmdb_meta(file_, state_, path_);
    return meta ? std::optional(Root{.page_size = meta->page_size, .page = meta->root}) : std::nullopt;
}

std::string LmdbSnapshot::stamp() const {
    return fmt::format("{} {} {}", stamp_of(info_), state_, entries_);
}

bool LmdbSnapshot::settled() const {
    return is_settled(info_);
}

}  // namespace stoker
