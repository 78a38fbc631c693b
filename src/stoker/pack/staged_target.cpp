// Hashes every sample twice: as the caller gave it and as the reader returns it. The running hashes must be equal at
// the end of every part.
#include "stoker/pack/staged_target.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/base/json_depth.h"
#include "stoker/formats/open.h"
#include "stoker/formats/webdataset/tar_member_name.h"
#include "stoker/pack/ordered_parallel_for.h"
#include "stoker/pack/packed_fields.h"
#include "stoker/pack/transcode.h"

namespace stoker {

namespace fs = std::filesystem;

namespace {

// `shape`: height, width and channels of raw pixels; zeros for an encoded image.
std::uint64_t sample_hash(std::string_view key, std::int64_t label, const std::array<std::int64_t, 3>& shape,
                          std::span<const std::byte> bytes) {
    const std::array<std::int64_t, 4> numbers = {label, shape[0], shape[1], shape[2]};
    return hash_bytes(bytes, hash_bytes(std::as_bytes(std::span(numbers)), hash_text(key)));
}

std::uint64_t extend_hash(std::uint64_t content, std::uint64_t sample) {
    const std::array<std::uint64_t, 2> both = {content, sample};
    return hash_bytes(std::as_bytes(std::span(both)));
}

}  // namespace

StagedTarget::StagedTarget(const fs::path& path, const TargetOptions& options, std::string_view format,
                           std::uint64_t part_size)
    : names_(path),
      staging_(names_, options.origin),
      format_(format),
      classes_(options.classes.begin(), options.classes.end()),
      fields_(options.fields.begin(), options.fields.end()),
      images_(options.images),
      source_samples_(options.samples),
      part_size_(part_size),
      workers_(options.workers) {}

void StagedTarget::refuse(std::string_view key, std::string expected, std::string got, std::string hint) const {
    throw DataError(
        {.path = names_.target, .key = std::string(key)},
        {.where = format_, .expected = std::move(expected), .got = std::move(got), .hint = std::move(hint)});
}

std::int64_t StagedTarget::part_samples(std::size_t part) const {
    return staging_.parts()[part].samples - (part == 0 ? 0 : staging_.parts()[part - 1].samples);
}

std::optional<TargetPart> StagedTarget::check_part(std::size_t part, const TargetProgress& progress) {
    if (part == parts()) {
        return std::nullopt;
    }
    const StagedPart& wanted = staging_.parts()[part];
    const Json* before = part == 0 ? nullptr : &staging_.parts()[part - 1].state;
    if (part_samples(part) < 1 || read_hash(part, before, wanted.state) != wanted.hash) {
        throw DataError({.path = names_.folder.string()},
                        {.where = format_, .expected = "the bytes that were written", .got = "other bytes"});
    }
    progress(wanted.samples, 0);
    return TargetPart{.samples = part_samples(part), .notes = wanted.notes};
}

void StagedTarget::begin(std::size_t whole) {
    if (whole < parts()) {
        staging_.keep_parts(whole);
    }
    open_ = whole == 0 ? StagedPart{} : staging_.parts().back();
    resume(whole == 0 ? nullptr : &staging_.parts().back().state);
}

bool StagedTarget::closes_part(const PackedSample& sample) const {
    return open_bytes_ > 0 && open_bytes_ + stored_bytes(sample) > part_size_;
}

void StagedTarget::add(const PackedSample& sample) {
    const std::uint64_t bytes = stored_bytes(sample);
    store(sample);
    const StkImage& image = sample.image;
    const std::uint64_t hash =
        sample_hash(sample.key, sample.label, {image.height, image.width, image.channels}, image.bytes);
    open_.content = extend_hash(open_.content, hash_values(sample.fields, hash));
    ++open_.codecs[images_ ? stk_codec_name(image.codec) : "none"];
    ++open_.samples;
    open_bytes_ += std::max<std::uint64_t>(bytes, 1);
}

void StagedTarget::close_part(const std::string& notes) {
    open_.state = save(open_.hash);
    open_.notes = notes;
    staging_.add(open_);
    open_bytes_ = 0;
}

void StagedTarget::finish(const std::string& origin, const TargetProgress& write, const TargetProgress& verify) {
    if (samples() == 0) {
        throw InvalidArgument({.where = names_.target, .expected = "at least one sample", .got = "none"});
    }
    const std::vector<std::string> files = assemble(write);
    read_back(verify);
    Json record = {{"stoker_pack", 1}, {"format", format_}};
    record.update(parse_own_json<Json>(origin));
    record["samples"] = open_.samples;
    record["codecs"] = open_.codecs;
    record["content"] = fmt::format("{:016x}", open_.content);
    staging_.publish(files, std::move(record));
}

std::uint64_t StagedTarget::stored_bytes(const PackedSample& sample) const {
    std::uint64_t bytes = sample.image.bytes.size();
    for (const StkValue& value : sample.fields) {
        bytes += value_bytes(value).size();
    }
    return bytes;
}

std::unique_ptr<Dataset> StagedTarget::reopen() const {
    return open_dataset(staged(names_.file).string(), Split::train,
                        {.fields = {.image = "", .label = "", .more = requests_of(fields_)}});
}

// A field of any length comes back as a fixed one if all samples have one length.
void StagedTarget::check_same_fields(const Dataset& dataset) const {
    const auto same = [](const Field& one, const Field& other) {
        return one.name == other.name && one.kind == other.kind && one.dtype == other.dtype &&
               one.shape.size() == other.shape.size();
    };
    if (!std::ranges::equal(dataset.fields(), fields_, same)) {
        throw DataError({.path = dataset.path()}, {.where = "pack",
                                                   .expected = fmt::format("the fields {}", describe_fields(fields_)),
                                                   .got = describe_fields(dataset.fields())});
    }
}

void StagedTarget::read_back(const TargetProgress& progress) const {
    const auto dataset = reopen();
    const auto differs = [&](const std::string& expected, const std::string& got) {
        throw DataError({.path = dataset->path()}, {.where = "pack", .expected = expected, .got = got});
    };
    if (dataset->size() != open_.samples) {
        differs(fmt::format("the {} samples that were written", open_.samples), fmt::format("{}", dataset->size()));
    }
    check_same_fields(*dataset);
    constexpr std::int64_t kPiece = 64;
    const OrderedRange range{.end = (dataset->size() + kPiece - 1) / kPiece, .threads = workers_};
    struct Slot {
        Sample sample;
        std::vector<std::byte> npy;
        std::vector<StkValue> fields;
        std::vector<std::uint64_t> hashes;
        std::int64_t bytes = 0;
    };
    std::vector<Slot> slots(static_cast<std::size_t>(range.slots()));
    std::uint64_t content = 0;
    std::int64_t bytes = 0;
    std::int64_t done = 0;
    std::size_t part = 0;
    ordered_parallel_for(
        range,
        [&](std::int64_t piece, int number, int) {
            Slot& slot = slots[static_cast<std::size_t>(number)];
            slot.hashes.clear();
            slot.bytes = 0;
            for (std::int64_t i = piece * kPiece; i < std::min(dataset->size(), (piece + 1) * kPiece); ++i) {
                slot.sample.label = -1;
                dataset->read(i, slot.sample);
                Sample& s = slot.sample;
                if (s.is_deep()) {  // packed as such a file
                    slot.npy = npy_file(s);
                    s.set_encoded_image(slot.npy);
                }
                const bool raw = !s.encoded;
                const std::uint64_t hash = sample_hash(
                    dataset->key(i), s.label, {raw ? s.height : 0, raw ? s.width : 0, raw ? s.channels : 0}, s.bytes);
                slot.fields.clear();
                for (std::size_t at = 0; at < fields_.size(); ++at) {
                    slot.fields.push_back(packed_value(dataset->fields()[at], s.fields[at]));
                }
                slot.hashes.push_back(hash_values(slot.fields, hash));
                slot.bytes += static_cast<std::int64_t>(s.bytes.size());
            }
        },
        [&](std::int64_t, int number) {
            const Slot& slot = slots[static_cast<std::size_t>(number)];
            for (const std::uint64_t hash : slot.hashes) {
                content = extend_hash(content, hash);
                ++done;
                if (part < parts() && staging_.parts()[part].samples == done) {
                    if (staging_.parts()[part].content != content) {
                        differs(
                            fmt::format("samples {} to {} as they were written", done - part_samples(part), done - 1),
                            "other samples");
                    }
                    ++part;
                }
            }
            bytes += slot.bytes;
            progress(done, bytes);
        });
    if (content != open_.content) {
        differs("the samples that were written", "other samples");
    }
    if (classes_.empty()) {
        return;
    }
    const auto found = dataset->classes();
    if (found.size() != classes_.size()) {
        differs(fmt::format("the {} classes of the source", classes_.size()), fmt::format("{} classes", found.size()));
    }
    const auto [wanted, other] = std::ranges::mismatch(classes_, found);
    if (wanted != classes_.end()) {
        differs(fmt::format("class {} as in the source, \"{}\"", wanted - classes_.begin(), *wanted),
                fmt::format("\"{}\"", *other));
    }
}

void StagedTarget::check_text(std::string_view text, const char* what) const {
    if (!is_utf8(text) || text.find('\0') != std::string_view::npos) {
        throw DataError({.path = names_.target, .key = std::string(text)},
                        {.where = format_,
                         .expected = fmt::format("{} of UTF-8 text without a NUL", what),
                         .got = "other bytes",
                         .hint = "stk and tar keep any bytes"});
    }
}

}  // namespace stoker
