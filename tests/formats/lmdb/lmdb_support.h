// Writes LMDB databases for tests, with liblmdb.
#pragma once

#include <gtest/gtest.h>
#include <lmdb.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

#include "support/temp_dir.h"

namespace stoker::testing {

// Opens or creates a database, calls `change` with a transaction and the unnamed database, and commits. A path that
// ends in .lmdb is a file, any other a folder.
template <typename Change>
void change_lmdb(const std::filesystem::path& path, unsigned database_flags, Change change,
                 std::size_t map_size = std::size_t{1} << 30) {
    const auto check = [](int code) {
        if (code != MDB_SUCCESS) {
            throw std::runtime_error(::mdb_strerror(code));
        }
    };
    const bool file = path.extension() == ".lmdb";
    if (!file) {
        std::filesystem::create_directories(path);
    }
    MDB_env* env = nullptr;
    check(::mdb_env_create(&env));
    check(::mdb_env_set_mapsize(env, map_size));
    check(::mdb_env_open(env, path.c_str(), MDB_NOSYNC | (file ? MDB_NOSUBDIR : 0U), 0644));
    MDB_txn* txn = nullptr;
    check(::mdb_txn_begin(env, nullptr, 0, &txn));
    MDB_dbi dbi = 0;
    check(::mdb_dbi_open(txn, nullptr, MDB_CREATE | database_flags, &dbi));
    change(txn, dbi, check);
    check(::mdb_txn_commit(txn));
    ::mdb_env_close(env);
}

inline MDB_val as_val(const std::string& text) {
    return {.mv_size = text.size(), .mv_data = const_cast<char*>(text.data())};
}

// Writes entries into a new or an existing database.
inline void write_lmdb(const std::filesystem::path& path, const std::map<std::string, std::string>& entries,
                       unsigned database_flags = 0, std::size_t map_size = std::size_t{1} << 30) {
    const auto put_all = [&](MDB_txn* txn, MDB_dbi dbi, auto check) {
        for (const auto& [key, value] : entries) {
            MDB_val k = as_val(key);
            MDB_val v = as_val(value);
            check(::mdb_put(txn, dbi, &k, &v, 0));
        }
    };
    change_lmdb(path, database_flags, put_all, map_size);
}

// Removes the entries' keys, as far as they exist.
inline void remove_lmdb(const std::filesystem::path& path, const std::map<std::string, std::string>& entries) {
    change_lmdb(path, 0, [&](MDB_txn* txn, MDB_dbi dbi, auto check) {
        for (const auto& [key, value] : entries) {
            MDB_val k = as_val(key);
            const int code = ::mdb_del(txn, dbi, &k, nullptr);
            check(code == MDB_NOTFOUND ? MDB_SUCCESS : code);
        }
    });
}

inline const std::string kPng = "\x89PNG\r\n\x1a\n";

inline std::string png(std::string_view rest) {
    return kPng + std::string(rest);
}

// Uses an empty cache folder instead of the user's.
class LmdbTest : public ::testing::Test {
  protected:
    LmdbTest() { ::setenv("STOKER_CACHE", (cache_ / "c").c_str(), 1); }
    ~LmdbTest() override { ::unsetenv("STOKER_CACHE"); }

    TempDir dir_;
    TempDir cache_;
};

template <typename Kind>
std::string error_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const Kind& error) {
        return error.what();
    }
    return "no error";
}

}  // namespace stoker::testing
