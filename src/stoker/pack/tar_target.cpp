// Packs into WebDataset shards or one tar file: members KEY.jpg, or KEY.npy for pixels, KEY.cls, and KEY.NAME.npy (or
// the ending of an image, or .bin) for further fields; tar_member_name.h gives their names. A part is a shard; in a
// single file, the members between two syncs.
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "stoker/base/ascii.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/arrays/npz_writer.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/webdataset/tar_member_name.h"
#include "stoker/formats/webdataset/tar_writer.h"
#include "stoker/formats/webdataset/webdataset.h"
#include "stoker/pack/packed_fields.h"
#include "stoker/pack/staged_target.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kOneFilePart = std::uint64_t{64} << 20;

std::string_view extension_of(const StkImage& image) {
    if (image.codec == StkCodec::sound) {
        return sound_ending(image.bytes).substr(1);
    }
    constexpr std::array<std::string_view, 18> kExtensions = {"npy", "jpg",  "png",  "dct", "dct", "webp",
                                                              "bmp", "ppm",  "tif",  "npy", "",    "",
                                                              "",    "avif", "heic", "jxl", "gif", "jp2"};
    return kExtensions.at(static_cast<std::size_t>(image.codec));
}

// Further fields of these names would be taken for the image or the label.
constexpr std::array<std::string_view, 24> kTaken = {"jpg", "jpeg", "png", "webp", "bmp",  "ppm",  "pgm",  "pbm",
                                                     "pnm", "dct",  "tif", "tiff", "avif", "heic", "heif", "jxl",
                                                     "gif", "jp2",  "j2k", "jpx",  "npy",  "cls",  "json", "txt"};

// Empty for an encoded image and for bytes.
std::string header_of(const StkValue& value) {
    const std::optional<StoredArray> array = stored_array(value);
    return array ? npy_header(npy_descr(array->dtype), array->shape) : "";
}

struct Member {
    std::string name;
    std::string header;  // of an array
    std::span<const std::byte> content;

    std::uint64_t stored() const { return tar_member_size(name, header.size() + content.size()); }
};

// A sample's members. `label` has the digits that the label's member refers to.
struct Members {
    std::vector<Member> all;
    std::string label;
};

void list_members(const PackedSample& sample, const std::vector<Field>& fields, bool images, const std::string& usual,
                  Members& members) {
    const TarMemberName name = tar_member_name(sample.key, extension_of(sample.image), usual);
    members.all.clear();
    if (images) {
        members.all.push_back({.name = fmt::format("{}.{}", name.base, name.extension),
                               .header = header_of(sample.image),
                               .content = sample.image.bytes});
    }
    if (sample.label >= 0) {
        members.label = fmt::format("{}", sample.label);
        members.all.push_back({.name = name.base + ".cls", .header = "", .content = as_bytes(members.label)});
    }
    for (std::size_t i = 0; i < fields.size(); ++i) {
        const StkValue& value = sample.fields[i];
        const auto* image = std::get_if<StkImage>(&value);
        const std::string_view extension = image != nullptr                          ? extension_of(*image)
                                           : std::holds_alternative<StkBytes>(value) ? "bin"
                                                                                     : "npy";
        members.all.push_back({.name = fmt::format("{}.{}.{}", name.base, lower_case(fields[i].name), extension),
                               .header = header_of(value),
                               .content = value_bytes(value)});
    }
}

// A file that will be renamed: its index is not cached.
class UncachedFile final : public ByteFile {
  public:
    explicit UncachedFile(const std::string& name) : file_(open_byte_file(name)) {}

    std::uint64_t size() const override { return file_->size(); }
    void read(std::uint64_t offset, std::span<std::byte> out) const override { file_->read(offset, out); }
    const std::string& name() const override { return file_->name(); }
    std::string stamp() const override { return file_->stamp(); }
    bool settled() const override { return false; }

  private:
    std::unique_ptr<ByteFile> file_;
};

class TarTarget final : public StagedTarget {
  public:
    TarTarget(const std::filesystem::path& path, const TargetOptions& options);

    void check(const PackedSample& sample) const override;

  protected:
    void resume(const Json* state) override;
    void store(const PackedSample& sample) override;
    std::uint64_t stored_bytes(const PackedSample& sample) const override;
    Json save(std::uint64_t& hash) override;
    std::uint64_t read_hash(std::size_t part, const Json* before, const Json& state) override;
    std::vector<std::string> assemble(const TargetProgress& progress) override;
    std::unique_ptr<Dataset> reopen() const override;

  private:
    std::optional<std::string> usual_;  // see usual_extension; empty before the first sample
    std::size_t shard_ = 0;
    std::unique_ptr<AppendFile> file_;  // null between two shards
};

TarTarget::TarTarget(const fs::path& path, const TargetOptions& options)
    : StagedTarget(path, options, "tar",
                   StagingPaths(path).shards ? options.shard_size : std::min(options.shard_size, kOneFilePart)) {
    for (const std::string& name : classes()) {
        if (name.empty() || name.find_first_of("\r\n") != std::string::npos) {
            throw InvalidArgument({.where = names().target,
                                   .expected = "class names of one line each",
                                   .got = fmt::format("\"{}\"", name),
                                   .hint = "the other targets store any name"});
        }
    }
    check_field_names(fields(), names().target, kTaken);
    refuse_bfloat16(fields(), names().target);
}

void TarTarget::check(const PackedSample& sample) const {
    if (sample.label > kMaxTarLabel) {
        refuse(sample.key, fmt::format("a class index of at most {}", kMaxTarLabel), fmt::format("{}", sample.label),
               "x.stk and x.lmdb store larger ones");
    }
}

void TarTarget::resume(const Json* state) {
    usual_ = state == nullptr ? std::nullopt : std::optional(state_text(*state, "usual"));
    if (names().shards) {
        shard_ = parts();
        for (std::size_t number = shard_; fs::remove(staged(names().shard(number))); ++number) {
        }
        return;
    }
    file_ = std::make_unique<AppendFile>(staged(names().file), state == nullptr ? 0 : state_number(*state, "bytes"));
}

std::uint64_t TarTarget::stored_bytes(const PackedSample& sample) const {
    Members members;
    list_members(sample, fields(), has_images(), usual_.value_or(""), members);
    std::uint64_t bytes = 0;
    for (const Member& member : members.all) {
        bytes += member.stored();
    }
    return bytes;
}

void TarTarget::store(const PackedSample& sample) {
    if (file_ == nullptr) {
        file_ = std::make_unique<AppendFile>(staged(names().shard(shard_)));
    }
    if (!usual_) {
        usual_ = usual_extension(sample.key, extension_of(sample.image));
    }
    Members members;
    list_members(sample, fields(), has_images(), *usual_, members);
    for (const Member& member : members.all) {
        const std::span<const std::byte> pieces[] = {as_bytes(member.header), member.content};
        append_tar_member(*file_, member.name, pieces);
    }
}

StagedTarget::Json TarTarget::save(std::uint64_t& hash) {
    if (names().shards) {
        append_tar_end(*file_);
    }
    file_->sync();
    hash = file_->take_hash();
    Json state = {{"bytes", file_->size()}, {"usual", *usual_}};
    if (names().shards) {
        file_.reset();
        ++shard_;
    }
    return state;
}

std::uint64_t TarTarget::read_hash(std::size_t part, const Json* before, const Json& state) {
    const bool shards = names().shards;
    const fs::path path = staged(shards ? names().shard(part) : names().file);
    const std::uint64_t begin = shards || before == nullptr ? 0 : state_number(*before, "bytes");
    const std::uint64_t end = state_number(state, "bytes");
    const std::uint64_t size = staged_size(path, end);
    if (end < begin || (shards && size != end)) {
        throw DataError({.path = path.string()},
                        {.where = "tar", .expected = fmt::format("{} bytes", end), .got = "another length"});
    }
    return hash_range(path, begin, end);
}

std::vector<std::string> TarTarget::assemble(const TargetProgress& /*progress*/) {
    std::vector<std::string> files;
    if (names().shards) {
        for (std::size_t number = 0; number < shard_; ++number) {
            files.push_back(names().shard(number));
        }
    } else {
        append_tar_end(*file_);
        file_->sync();
        file_.reset();
        files.push_back(names().file);
    }
    if (!classes().empty()) {
        files.push_back(names().stem + "-classes.txt");
        write_file(staged(files.back()), fmt::format("{}\n", fmt::join(classes(), "\n")));
    }
    return files;
}

// Opens the shards by name, not by a pattern, since the folder's name may contain braces.
std::unique_ptr<Dataset> TarTarget::reopen() const {
    std::vector<std::string> shards;
    for (std::size_t number = 0; number < (names().shards ? shard_ : 1); ++number) {
        shards.push_back(staged(names().shards ? names().shard(number) : names().file).string());
    }
    return std::make_unique<WebDataset>(staged(names().file).string(), std::move(shards),
                                        FieldNames{.image = "", .label = "", .more = requests_of(fields())},
                                        [](const std::string& name) { return std::make_unique<UncachedFile>(name); });
}

}  // namespace

std::unique_ptr<PackTarget> open_tar_target(const fs::path& path, const TargetOptions& options) {
    return std::make_unique<TarTarget>(path, options);
}

}  // namespace stoker
