// Order of writes: a shard gets its final name, then its entry in stk.part.json. A shard without an entry may be
// incomplete and is written again.
#include "stoker/formats/stk/stk_writer.h"

#include <algorithm>
#include <fmt/format.h>
#include <system_error>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

std::uint64_t payload_bytes(std::span<const StkValue> values) {
    std::uint64_t sum = 0;
    for (const StkValue& value : values) {
        if (const auto* image = std::get_if<StkImage>(&value)) {
            sum += stk_align(image->bytes.size());
        } else if (const auto* bytes = std::get_if<StkBytes>(&value)) {
            sum += stk_align(bytes->size());
        } else if (const auto* tensor = std::get_if<TensorView>(&value)) {
            sum += stk_align(tensor->bytes());
        }
    }
    return sum;
}

// A temporary file of a shard or manifest, of any process.
bool is_temporary(const fs::path& path) {
    const std::string name = path.filename().string();
    return (name.starts_with("shard-") || name.starts_with("stk.")) && name.find(".tmp-") != std::string::npos;
}

// Whether a writer may remove the file: a shard or a temporary file.
bool is_removable(const fs::path& path) {
    const std::string name = path.filename().string();
    return is_temporary(path) || (name.starts_with("shard-") && name.ends_with(".stk"));
}

void remove_file(const fs::path& path) {
    std::error_code error;
    fs::remove(path, error);
    if (error) {
        throw errno_error(path.string(), "a file that can be removed", error.value());
    }
}

}  // namespace

StkWriter::StkWriter(const fs::path& directory, StkSchema schema, const StkWriterOptions& options)
    : directory_(directory), schema_(std::move(schema)), shard_size_(options.shard_size) {
    check_schema(schema_);
    std::error_code error;
    fs::create_directories(directory_, error);
    if (error) {
        throw errno_error(directory_.string(), "a place for a new folder", error.value());
    }
    lock_.emplace(directory_);
    resume_or_start(compact_json(options.origin));
    remove_unfinished();
}

void StkWriter::resume_or_start(const std::string& origin) {
    const fs::path part = directory_ / kStkPartManifest;
    const bool begun = fs::exists(part);
    if (begun) {
        manifest_ = read_manifest(part);
    }
    if (!manifest_.shards.empty()) {
        if (manifest_.origin != origin) {
            throw InvalidArgument({.where = directory_.string(),
                                   .expected = "the source and options of the unfinished data set, " + manifest_.origin,
                                   .got = origin,
                                   .hint = "repeat that command to finish it, or remove the folder"});
        }
        return;
    }
    for (const fs::path& path : list_folder(directory_)) {
        const bool ours = begun && (is_removable(path) || path.filename() == kStkPartManifest);  // nothing was kept
        if (!is_temporary(path) && !ours) {
            throw IoError({.where = directory_.string(),
                           .expected = "a new or empty folder",
                           .got = "one with files in it",
                           .hint = "name another, or remove it first"});
        }
    }
    manifest_ = {};
    manifest_.origin = origin;
    write_manifest(part, manifest_);
}

void StkWriter::keep_shards(std::size_t count) {
    manifest_.shards.resize(std::min(count, manifest_.shards.size()));
    manifest_.notes.resize(manifest_.shards.size());
    write_manifest(directory_ / kStkPartManifest, manifest_);
    remove_unfinished();
}

std::uint64_t StkWriter::samples() const {
    return manifest_.samples() + (shard_ == nullptr ? 0 : shard_->samples());
}

bool StkWriter::closes_shard(std::span<const StkValue> values) const {
    return shard_ != nullptr && shard_->bytes() - sizeof(StkHeader) + payload_bytes(values) > shard_size_;
}

// Removes shards that the manifest does not list and temporary files of dead writers.
void StkWriter::remove_unfinished() {
    for (const fs::path& path : list_folder(directory_)) {
        bool kept = !is_removable(path);
        for (std::size_t i = 0; !kept && i < manifest_.shards.size(); ++i) {
            kept = path.filename() == stk_shard_name(i);
        }
        if (!kept) {
            remove_file(path);
        }
    }
}

void StkWriter::add(std::string_view key, std::span<const StkValue> values) {
    if (closes_shard(values)) {
        close_shard();
    }
    if (shard_ == nullptr) {
        shard_ = std::make_unique<StkShardWriter>(
            directory_, schema_, static_cast<std::uint32_t>(manifest_.shards.size()), manifest_.samples());
    }
    shard_->add(key, values);
}

void StkWriter::close_shard(const std::string& notes) {
    if (shard_ == nullptr) {
        return;
    }
    manifest_.shards.push_back(shard_->finish());
    manifest_.notes.push_back(notes);
    shard_.reset();
    write_manifest(directory_ / kStkPartManifest, manifest_);
}

void StkWriter::finish(const std::string& origin) {
    close_shard();
    if (manifest_.shards.empty()) {
        throw InvalidArgument({.where = directory_.string(), .expected = "at least one sample", .got = "none"});
    }
    manifest_.notes.clear();
    manifest_.origin = origin;
    write_manifest(directory_ / kStkManifest, manifest_);
    remove_file(directory_ / kStkPartManifest);
    sync_directory(directory_);
}

}  // namespace stoker
