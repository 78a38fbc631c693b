// A transaction fails if the map is too small. So the map is enlarged before each transaction, and a transaction is
// committed early if the next value would not fit.
#include "stoker/formats/lmdb/lmdb_writer.h"

#include <lmdb.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/lmdb/lmdb_meta.h"

namespace stoker {
namespace {

// The map grows by at least this many bytes.
constexpr std::uint64_t kStep = std::uint64_t{256} << 20;
// Pages that a put may need besides the value: one of the tree, and the value's last.
constexpr std::uint64_t kPerPut = 8 << 10;
// Keys that are removed in one transaction.
constexpr std::uint64_t kDropped = 16'384;

MDB_val value_of(std::string_view text) {
    return {text.size(), const_cast<char*>(text.data())};  // LMDB does not write to it
}

}  // namespace

struct LmdbWriter::Handles {
    MDB_env* env = nullptr;
    MDB_txn* txn = nullptr;
    MDB_dbi dbi = 0;

    Handles() = default;
    Handles(const Handles&) = delete;
    Handles& operator=(const Handles&) = delete;
    ~Handles() {
        if (txn != nullptr) {
            mdb_txn_abort(txn);
        }
        if (env != nullptr) {
            mdb_env_close(env);
        }
    }
};

LmdbWriter::LmdbWriter(std::filesystem::path path) : path_(std::move(path)), handles_(std::make_unique<Handles>()) {
    std::error_code absent;  // then liblmdb creates it
    if (const auto size = std::filesystem::file_size(path_, absent); !absent && size > 0) {
        read_lmdb_meta(File(path_), path_.string());  // liblmdb leaks memory if the file is not an LMDB file
    }
    check(mdb_env_create(&handles_->env), "memory");
    const int status = mdb_env_open(handles_->env, path_.c_str(), MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOTLS, 0666);
    if (status == MDB_INVALID || status == MDB_VERSION_MISMATCH || status == MDB_CORRUPTED) {
        throw DataError({.path = path_.string()},
                        {.where = "lmdb", .expected = "an LMDB database", .got = mdb_strerror(status)});
    }
    check(status, "a database that can be opened");
    begin();
}

LmdbWriter::~LmdbWriter() = default;

void LmdbWriter::check(int status, const char* expected) const {
    if (status > 0) {
        throw errno_error(path_.string(), expected, status);
    }
    if (status != MDB_SUCCESS) {
        throw IoError({.where = path_.string(), .expected = expected, .got = mdb_strerror(status)});
    }
}

// Begins the next transaction, with a map that has room for room_ and at least kStep more bytes.
void LmdbWriter::begin() {
    MDB_envinfo info = {};
    MDB_stat stat = {};
    check(mdb_env_info(handles_->env, &info), "the map's size");
    check(mdb_env_stat(handles_->env, &stat), "the page size");
    const std::uint64_t used = (info.me_last_pgno + 1) * std::uint64_t{stat.ms_psize};
    room_ = std::max(room_, kStep);
    if (info.me_mapsize < used + room_ + kStep) {
        check(mdb_env_set_mapsize(handles_->env, used + 2 * (room_ + kStep)), "room for a larger map");
    }
    check(mdb_txn_begin(handles_->env, nullptr, 0, &handles_->txn), "a transaction");
    check(mdb_dbi_open(handles_->txn, nullptr, 0, &handles_->dbi), "the database");
}

void LmdbWriter::need(std::uint64_t bytes) {
    const std::uint64_t wanted = bytes + kPerPut;
    if (wanted > room_) {
        commit();
        if (wanted > room_) {
            mdb_txn_abort(std::exchange(handles_->txn, nullptr));
            room_ = wanted;
            begin();
        }
    }
    room_ -= std::min(room_, wanted);
}

void LmdbWriter::put(std::string_view key, std::span<const std::byte> value) {
    need(key.size() + value.size());
    MDB_val name = value_of(key);
    MDB_val content = {value.size(), const_cast<std::byte*>(value.data())};
    // Tried first, because it needs no search.
    int status = mdb_put(handles_->txn, handles_->dbi, &name, &content, MDB_APPEND);
    if (status == MDB_KEYEXIST) {
        status = mdb_put(handles_->txn, handles_->dbi, &name, &content, 0);
    }
    check(status, "room to write");
}

// Removals need new pages too, for the changed pages and for the list of free ones.
void LmdbWriter::drop_from(std::string_view key) {
    if (drop_all_from(key)) {
        return;
    }
    bool more = true;
    while (more) {
        need(kDropped * kPerPut);
        more = drop_some(key);
    }
}

// If `key` is not after the first key, empties the database and returns true.
bool LmdbWriter::drop_all_from(std::string_view key) {
    MDB_envinfo info = {};
    check(mdb_env_info(handles_->env, &info), "the map's size");
    MDB_cursor* cursor = nullptr;
    check(mdb_cursor_open(handles_->txn, handles_->dbi, &cursor), "a cursor");
    MDB_val name = {};
    MDB_val value = {};
    const int status = mdb_cursor_get(cursor, &name, &value, MDB_FIRST);
    const bool all =
        status == MDB_SUCCESS && std::string_view(static_cast<const char*>(name.mv_data), name.mv_size) >= key;
    mdb_cursor_close(cursor);
    check(status == MDB_NOTFOUND ? MDB_SUCCESS : status, "keys that can be removed");
    if (all) {
        need((info.me_last_pgno + 1) * 2 * sizeof(std::uint64_t));  // the list of free pages
        check(mdb_drop(handles_->txn, handles_->dbi, 0), "a database that can be emptied");
    }
    return all;
}

// Returns true if there may be more.
bool LmdbWriter::drop_some(std::string_view key) {
    MDB_cursor* cursor = nullptr;
    check(mdb_cursor_open(handles_->txn, handles_->dbi, &cursor), "a cursor");
    MDB_val name = value_of(key);
    MDB_val value = {};
    int status = mdb_cursor_get(cursor, &name, &value, MDB_SET_RANGE);
    std::uint64_t done = 0;
    for (; status == MDB_SUCCESS && done < kDropped; ++done) {
        status = mdb_cursor_del(cursor, 0);
        if (status == MDB_SUCCESS) {
            status = mdb_cursor_get(cursor, &name, &value, MDB_NEXT);
        }
    }
    mdb_cursor_close(cursor);
    check(status == MDB_NOTFOUND ? MDB_SUCCESS : status, "keys that can be removed");
    return done == kDropped;
}

void LmdbWriter::commit() {
    check(mdb_txn_commit(std::exchange(handles_->txn, nullptr)), "the transaction to reach the disk");
    room_ = 0;
    begin();
}

std::optional<std::span<const std::byte>> LmdbWriter::get(std::string_view key) {
    MDB_val name = value_of(key);
    MDB_val value = {};
    const int status = mdb_get(handles_->txn, handles_->dbi, &name, &value);
    if (status == MDB_NOTFOUND) {
        return std::nullopt;
    }
    check(status, "a value");
    return std::span(static_cast<const std::byte*>(value.mv_data), value.mv_size);
}

std::uint64_t LmdbWriter::entries() {
    MDB_stat stat = {};
    check(mdb_stat(handles_->txn, handles_->dbi, &stat), "the number of entries");
    return stat.ms_entries;
}

}  // namespace stoker
