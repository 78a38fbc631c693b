// Which members a sample becomes is formats/tar_names.h's to say; here they are written, shard by shard.
#include "stoker/pack/tar_target.h"

#include <algorithm>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/arrays/npz_writer.h"
#include "stoker/formats/webdataset/tar_names.h"
#include "stoker/formats/webdataset/tar_writer.h"
#include "stoker/formats/webdataset/webdataset.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kOneFilePart = std::uint64_t{64} << 20;

std::string_view extension_of(StkCodec codec) {
    switch (codec) {
        case StkCodec::raw:
            return "npy";
        case StkCodec::jpeg:
            return "jpg";
        case StkCodec::png:
            return "png";
        case StkCodec::dct:
        case StkCodec::dct_zstd:
            return "dct";
        case StkCodec::webp:
            return "webp";
        case StkCodec::bmp:
            return "bmp";
        case StkCodec::pnm:
            return "ppm";
    }
    return "bin";
}

// (H, W, C), or (H, W) for one channel; empty for an encoded image.
std::string pixel_header(const StkImage& image) {
    if (image.codec != StkCodec::raw) {
        return "";
    }
    Shape shape = {image.height, image.width};
    if (image.channels != 1) {
        shape.push_back(image.channels);
    }
    return npy_header("|u1", shape);
}

struct Members {
    std::string image;
    std::string label;  // empty where there is none
};

Members members_of(const PackedSample& sample, const std::string& usual) {
    const TarName name = tar_name(sample.key, extension_of(sample.image.codec), usual);
    return {.image = fmt::format("{}.{}", name.base, name.extension),
            .label = sample.label < 0 ? "" : name.base + ".cls"};
}

// A file whose name lasts until the end of the packing: nothing is kept about it.
class Passing final : public ByteFile {
  public:
    explicit Passing(const std::string& name) : file_(open_byte_file(name)) {}

    std::uint64_t size() const override { return file_->size(); }
    void read(std::uint64_t offset, std::span<std::byte> out) const override { file_->read(offset, out); }
    const std::string& name() const override { return file_->name(); }
    std::string stamp() const override { return file_->stamp(); }
    bool settled() const override { return false; }

  private:
    std::unique_ptr<ByteFile> file_;
};

std::string class_lines(std::span<const std::string> classes) {
    std::string text;
    for (const std::string& name : classes) {
        text += name + "\n";
    }
    return text;
}

}  // namespace

TarTarget::TarTarget(const fs::path& path, const TargetOptions& options)
    : StagedTarget(path, options, "tar",
                   StagedNames(path).shards ? options.shard_size : std::min(options.shard_size, kOneFilePart)) {
    for (const std::string& name : classes()) {
        if (name.empty() || name.find_first_of("\r\n") != std::string::npos) {
            throw InvalidArgument({.where = names().target,
                                   .expected = "class names of one line each",
                                   .got = fmt::format("\"{}\"", name),
                                   .hint = "the other targets keep any name"});
        }
    }
}

void TarTarget::check(const PackedSample& sample) const {
    if (sample.label > kMaxTarLabel) {
        refuse(sample.key, fmt::format("a class index of at most {}", kMaxTarLabel), fmt::format("{}", sample.label),
               "x.stk and x.lmdb hold larger ones");
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
    const Members members = members_of(sample, usual_.value_or(""));
    const std::uint64_t label =
        members.label.empty() ? 0 : tar_member_size(members.label, fmt::formatted_size("{}", sample.label));
    return tar_member_size(members.image, pixel_header(sample.image).size() + sample.image.bytes.size()) + label;
}

void TarTarget::store(const PackedSample& sample) {
    if (file_ == nullptr) {
        file_ = std::make_unique<AppendFile>(staged(names().shard(shard_)));
    }
    if (!usual_) {
        usual_ = usual_extension(sample.key, extension_of(sample.image.codec));
    }
    const Members members = members_of(sample, *usual_);
    const std::string header = pixel_header(sample.image);
    const std::span<const std::byte> pieces[] = {as_bytes(header), sample.image.bytes};
    append_tar_member(*file_, members.image, pieces);
    if (!members.label.empty()) {
        const std::string digits = fmt::format("{}", sample.label);
        const std::span<const std::byte> label[] = {as_bytes(digits)};
        append_tar_member(*file_, members.label, label);
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
        write_file(staged(files.back()), class_lines(classes()));
    }
    return files;
}

// By the shards' names, never by a pattern: braces in the folder's name are no range.
std::unique_ptr<Dataset> TarTarget::reopen() const {
    std::vector<std::string> shards;
    for (std::size_t number = 0; number < (names().shards ? shard_ : 1); ++number) {
        shards.push_back(staged(names().shards ? names().shard(number) : names().file).string());
    }
    return std::make_unique<WebDataset>(staged(names().file).string(), std::move(shards), FieldNames{},
                                        [](const std::string& name) { return std::make_unique<Passing>(name); });
}

}  // namespace stoker
