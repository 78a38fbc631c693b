// The image of a sample is the member whose extension comes first in kImages. If there is none, it is a single member
// such as photo.2019.jpg, whose extension ends in one of them. Members that are asked for as other fields are left out.
#include "stoker/formats/webdataset/sample_grouper.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <limits>

#include "stoker/base/ascii.h"
#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/base/parse_number.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/webdataset/tar_member_name.h"

namespace stoker {
namespace {

constexpr std::array<std::string_view, 36> kImages = {
    "jpg", "jpeg", "png",  "webp", "bmp",  "ppm", "pgm", "pbm",  "pnm", "dct", "tif", "tiff",
    "npy", "avif", "heic", "heif", "jxl",  "gif", "jp2", "j2k",  "jpx", "mp4", "m4v", "mov",
    "mkv", "webm", "avi",  "wav",  "flac", "ogg", "oga", "opus", "mp3", "m4a", "aif", "aiff"};
constexpr std::size_t kSuffixed = kImages.size();  // rank of an extension such as 2019.jpg
constexpr std::size_t kNone = kSuffixed + 1;
constexpr std::size_t kNoField = 2;  // above all ranks of TarFieldSource

bool is_metadata(std::string_view component) {
    return component.size() >= 4 && component.starts_with("__") && component.ends_with("__");
}

std::size_t rank_of(const std::string& extension, const std::string& wanted) {
    if (!wanted.empty()) {
        return extension == wanted ? 0 : kNone;
    }
    if (const auto* found = std::ranges::find(kImages, extension); found != kImages.end()) {
        return static_cast<std::size_t>(found - kImages.begin());
    }
    const std::size_t dot = extension.rfind('.');
    return dot != std::string::npos && std::ranges::find(kImages, extension.substr(dot + 1)) != kImages.end()
               ? kSuffixed
               : kNone;
}

bool is_number(std::string_view text) {
    return !text.empty() && text.size() <= 18 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_image_extension(std::string_view extension) {
    return std::ranges::find(kImages, lower_case(extension)) != kImages.end();
}

// Such a file may be a clip or a volume alone.
bool is_whole_extension(std::string_view extension) {
    const std::string name = fmt::format(".{}", extension);
    return is_npy_name(name) || is_video_name(name) || is_tiff_name(name);
}

// The parts key and NUMBER.jpg of key/NUMBER.jpg; those of other names unchanged.
TarMemberNameParts with_frame_number(std::string_view name, TarMemberNameParts parts) {
    const std::size_t slash = parts.key.rfind('/');
    if (slash != std::string_view::npos && slash > 0 && is_number(parts.key.substr(slash + 1)) &&
        is_image_extension(parts.extension) && !is_whole_extension(parts.extension)) {
        return {.key = parts.key.substr(0, slash), .extension = name.substr(slash + 1)};
    }
    return parts;
}

// The number in an extension such as 017.jpg.
std::optional<std::uint64_t> frame_number(std::string_view extension) {
    const std::size_t dot = extension.find('.');
    if (dot == std::string_view::npos || !is_number(extension.substr(0, dot)) ||
        !is_image_extension(extension.substr(dot + 1))) {
        return std::nullopt;
    }
    return parse_number<std::uint64_t>(extension.substr(0, dot));
}

}  // namespace

TarMemberNameParts split_tar_member_name(std::string_view name) {
    if (is_metadata(name.substr(0, name.find('/')))) {
        return {};
    }
    const std::size_t base = name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1;
    const std::size_t dot = name.find('.', base);
    if (dot == std::string_view::npos || dot == base) {
        return {};
    }
    return {.key = name.substr(0, dot), .extension = name.substr(dot + 1)};
}

SampleGrouper::SampleGrouper(std::string path, const FieldNames& wanted, bool imageless,
                             std::function<void(const GroupedSample&)> found)
    : path_(std::move(path)),
      clips_(wanted.clips),
      wanted_image_(lower_case(wanted.image)),
      label_members_(label_members(wanted.label)),
      sources_(wanted.more.begin(), wanted.more.end()),
      imageless_(imageless),
      found_(std::move(found)) {}

void SampleGrouper::add(const TarMember& member, const std::function<std::span<const std::byte>()>& bytes) {
    TarMemberNameParts parts = split_tar_member_name(member.name);
    if (parts.key.empty()) {
        return;
    }
    if (clips_) {
        parts = with_frame_number(member.name, parts);
    }
    const std::string extension = lower_case(parts.extension);
    if (!open_ || parts.key != key_) {
        finish();
        begin(member, parts.key);
    }
    check_new(member, parts.key, extension);
    offer_image(member, extension);
    offer_label(member, extension, bytes);
    offer_fields(member, extension);
    list(extension);
}

void SampleGrouper::begin(const TarMember& member, std::string_view key) {
    constexpr std::uint64_t kKeys = 1;
    if (!seen_.insert(hash_text(key, kKeys)).second) {
        throw DataError({.path = path_, .key = member.name, .offset = static_cast<std::int64_t>(member.header)},
                        {.where = "webdataset",
                         .expected = "consecutive members for each sample",
                         .got = fmt::format("\"{}\" again, after others", key),
                         .hint = "sort the files by name when packing them"});
    }
    open_ = true;
    key_ = key;
    sample_ = {.key = {}, .payload = {}, .fields = std::vector<std::optional<ByteRange>>(sources_.size())};
    image_rank_ = kNone;
    label_rank_ = label_members_.size();
    field_ranks_.assign(sources_.size(), kNoField);
    suffixed_ = 0;
}

void SampleGrouper::check_new(const TarMember& member, std::string_view key, const std::string& extension) {
    if (!seen_.insert(hash_text(extension, hash_text(key))).second) {
        throw DataError({.path = path_, .key = member.name, .offset = static_cast<std::int64_t>(member.header)},
                        {.where = "webdataset",
                         .expected = "each extension once in a sample",
                         .got = fmt::format("\"{}\" twice", extension)});
    }
}

void SampleGrouper::check_size(const TarMember& member) const {
    if (member.payload.size > std::numeric_limits<std::uint32_t>::max()) {
        throw DataError({.path = path_, .key = member.name, .offset = static_cast<std::int64_t>(member.header)},
                        {.where = "webdataset",
                         .expected = "images and fields below 4 GiB",
                         .got = fmt::format("{} bytes", member.payload.size)});
    }
}

void SampleGrouper::offer_image(const TarMember& member, const std::string& extension) {
    if (const auto number = clips_ && wanted_image_.empty() ? frame_number(extension) : std::nullopt) {
        check_size(member);
        sample_.frames.push_back({.number = *number, .payload = member.payload});
        return;
    }
    const bool other = wanted_image_.empty() && std::ranges::any_of(sources_, [&](const TarFieldSource& source) {
                           return source.is_other_than_image(extension);
                       });
    std::size_t rank = other ? kNone : rank_of(extension, wanted_image_);
    if (clips_ && rank < kSuffixed) {  // a picture may be the video's
        rank = is_video_name(member.name) ? 0 : rank + 1;
    }
    suffixed_ += rank == kSuffixed;
    if (rank >= image_rank_) {
        return;
    }
    check_size(member);
    image_rank_ = rank;
    sample_.payload = member.payload;
    sample_.image = extension == "npy" || extension.ends_with(".npy") ? TarImage::npy : TarImage::encoded;
    sample_.key = tar_member_key(key_, std::string_view(member.name).substr(key_.size() + 1));
}

// Parsed at once, although a better member may follow: its bytes are buffered now.
void SampleGrouper::offer_label(const TarMember& member, const std::string& extension,
                                const std::function<std::span<const std::byte>()>& bytes) {
    for (std::size_t rank = 0; rank < label_rank_; ++rank) {
        const LabelMember& kind = label_members_[rank];
        if (kind.extension != extension) {
            continue;
        }
        const bool fits = member.payload.size <= max_label_bytes(kind);
        const std::int32_t label = fits ? parse_label(kind, bytes()) : kind.strict ? kBadTarLabel : kNoTarLabel;
        if (label != kNoTarLabel) {
            label_rank_ = rank;
            sample_.label = label;
        }
        return;
    }
}

void SampleGrouper::offer_fields(const TarMember& member, const std::string& extension) {
    for (std::size_t i = 0; i < sources_.size(); ++i) {
        const std::size_t rank = sources_[i].rank(extension).value_or(kNoField);
        if (rank < field_ranks_[i]) {
            check_size(member);
            field_ranks_[i] = rank;
            sample_.fields[i] = member.payload;
        }
    }
}

void SampleGrouper::list(const std::string& extension) {
    constexpr std::size_t kMostListed = 20;
    constexpr std::size_t kLongest = 40;
    if (extensions_.size() < kMostListed && std::ranges::find(extensions_, extension) == extensions_.end()) {
        extensions_.push_back(extension.substr(0, kLongest));
    }
}

void SampleGrouper::finish() {
    if (!open_) {
        return;
    }
    open_ = false;
    if (!sample_.frames.empty()) {
        std::ranges::stable_sort(sample_.frames, {}, &TarFrame::number);
        sample_.key = tar_member_key(key_, "npy");  // without an extension
        sample_.image = TarImage::frames;
        sample_.payload = {};
        found_(sample_);
        return;
    }
    const bool ambiguous = image_rank_ == kSuffixed && suffixed_ > 1;
    if (image_rank_ != kNone && !ambiguous) {
        found_(sample_);
    } else if (imageless_ && std::ranges::any_of(field_ranks_, [](std::size_t rank) { return rank != kNoField; })) {
        sample_.key = tar_member_key(key_, "npy");  // without an extension
        sample_.payload = {};
        sample_.image = TarImage::none;
        found_(sample_);
    } else if (ambiguous || sample_.label != kNoTarLabel) {  // no README.txt
        constexpr std::size_t kLongest = 200;
        left_out_key_ = left_out_++ == 0 ? key_.substr(0, kLongest) : left_out_key_;
    }
}

}  // namespace stoker
