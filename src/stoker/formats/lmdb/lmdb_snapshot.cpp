// The transaction begins first; its number says which of the two meta pages describes its state.
#include "stoker/formats/lmdb/lmdb_snapshot.h"

#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/io/byte_file.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDataName = "data.mdb";
constexpr int kAttempts = 100;  // to read a meta page that a writer may replace

[[noreturn]] void fail_written(const std::string& path) {
    throw IoError({.where = path,
                   .expected = "a database that is not written to constantly",
                   .got = fmt::format("a new state at each of {} attempts", kAttempts)});
}

}  // namespace

std::optional<fs::path> find_lmdb(const fs::path& data) {
    fs::path inside = data / kDataName;
    if (is_file(inside)) {
        return inside;
    }
    const fs::path extension = data.extension();
    const bool named = extension == ".lmdb" || extension == ".mdb";
    return named && is_file(data) ? std::optional(data) : std::nullopt;
}

LmdbSnapshot::LmdbSnapshot(const fs::path& data) : path_(data.string()), file_(data) {
    read_lmdb_meta(file_, path_).format == LmdbFormat::v0_9 ? begin_transaction() : read_settled_meta();
    info_ = file_.info();
    map_ = MappedFile(file_);
    // The file may end before the last page of the map, if the pages at the end are free.
    const std::uint64_t pages = map_.bytes().size() / meta_.page_size;
    const std::uint64_t used = (meta_.last_page < pages ? meta_.last_page + 1 : pages) * meta_.page_size;
    // Writers that do not know of the transaction may overwrite its pages, so large values are copied then.
    map_or_read_ = transaction_ && transaction_->locked() ? MapOrRead(used) : MapOrRead();
    tree_ = LmdbTree(map_.bytes().first(used), meta_, path_);
    if (info_.inode != File(path_).info().inode) {
        throw IoError({.where = path_, .expected = "one file while it is opened", .got = "another file of that name"});
    }
}

// A writer may replace a meta page while it is read. Then a new transaction is begun.
void LmdbSnapshot::begin_transaction() {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        transaction_.emplace(path_);
        const auto meta = find_lmdb_meta(file_, transaction_->number(), path_);
        if (meta && meta == find_lmdb_meta(file_, transaction_->number(), path_)) {
            meta_ = *meta;
            return;
        }
    }
    fail_written(path_);
}

void LmdbSnapshot::read_settled_meta() {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        meta_ = read_lmdb_meta(file_, path_);
        if (meta_ == read_lmdb_meta(file_, path_)) {
            return;
        }
    }
    fail_written(path_);
}

std::span<const std::byte> LmdbSnapshot::load(std::span<const std::byte> value, Buffer& storage) const {
    return map_or_read_.get(value, file_, static_cast<std::uint64_t>(value.data() - map_.bytes().data()), storage);
}

std::string LmdbSnapshot::stamp() const {
    return fmt::format("{} {} {}", stamp_of(info_), meta_.transaction, meta_.entries);
}

bool LmdbSnapshot::settled() const {
    return is_settled(info_);
}

}  // namespace stoker
