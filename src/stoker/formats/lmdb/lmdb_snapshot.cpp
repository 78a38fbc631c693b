// The pin comes first and says which of the two first pages describes the state that it keeps.
#include "stoker/formats/lmdb/lmdb_snapshot.h"

#include <fmt/format.h>
#include <system_error>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/io/byte_file.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDataName = "data.mdb";

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

LmdbSnapshot::LmdbSnapshot(const fs::path& data) : path_(data.string()), file_(data) {
    read_lmdb_meta(file_, path_);
    pin();
    info_ = file_.info();
    map_ = MappedFile(file_);
    // A file may end before its last page, where the last ones are free. A page beyond is refused when it is looked
    // for.
    const std::uint64_t pages = map_.bytes().size() / meta_.page_size;
    const std::uint64_t used = (meta_.last_page < pages ? meta_.last_page + 1 : pages) * meta_.page_size;
    // A writer who does not know of us may change what we look at; a copy of what is large stays as it is.
    in_place_ = pin_->locked() ? InPlace(used) : InPlace();
    tree_ = LmdbTree(map_.bytes().first(used), meta_, path_);
    if (info_.inode != File(path_).info().inode) {
        throw IoError({.where = path_, .expected = "a file that stays", .got = "another file of that name"});
    }
}

// While the pages are read a writer may put a later state in their place, or half of it: then all is done again.
void LmdbSnapshot::pin() {
    constexpr int kAttempts = 100;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        pin_.emplace(path_);
        const auto meta = find_lmdb_meta(file_, pin_->state(), path_);
        if (meta && meta == find_lmdb_meta(file_, pin_->state(), path_)) {
            meta_ = *meta;
            return;
        }
    }
    throw IoError({.where = path_,
                   .expected = "a state of the database that stays for a moment",
                   .got = fmt::format("{} that did not", kAttempts)});
}

std::span<const std::byte> LmdbSnapshot::load(std::span<const std::byte> value, Buffer& storage) const {
    return in_place_.get(value, file_, static_cast<std::uint64_t>(value.data() - map_.bytes().data()), storage);
}

std::string LmdbSnapshot::stamp() const {
    return fmt::format("{} {} {}", stamp_of(info_), meta_.transaction, meta_.entries);
}

bool LmdbSnapshot::settled() const {
    return is_settled(info_);
}

}  // namespace stoker
