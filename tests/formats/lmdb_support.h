// LMDB databases as other programs write them, for tests.
#pragma once

#include <lmdb.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

namespace stoker::testing {

// Writes (or adds) the entries in one transaction. A path that ends in .lmdb is a file, any other a folder.
inline void write_lmdb(const std::filesystem::path& path, const std::map<std::string, std::string>& entries,
                       unsigned database_flags = 0) {
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
    check(::mdb_env_set_mapsize(env, std::size_t{1} << 30));
    check(::mdb_env_open(env, path.c_str(), MDB_NOSYNC | (file ? MDB_NOSUBDIR : 0U), 0644));
    MDB_txn* txn = nullptr;
    check(::mdb_txn_begin(env, nullptr, 0, &txn));
    MDB_dbi dbi = 0;
    check(::mdb_dbi_open(txn, nullptr, MDB_CREATE | database_flags, &dbi));
    for (const auto& [key, value] : entries) {
        MDB_val k{.mv_size = key.size(), .mv_data = const_cast<char*>(key.data())};
        MDB_val v{.mv_size = value.size(), .mv_data = const_cast<char*>(value.data())};
        check(::mdb_put(txn, dbi, &k, &v, 0));
    }
    check(::mdb_txn_commit(txn));
    ::mdb_env_close(env);
}

}  // namespace stoker::testing
