#include "stoker/formats/coco/coco_dataset.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/format.h>

#include "stoker/base/ascii.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/checked_growth.h"
#include "stoker/formats/fields.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAnnotations = "annotations";
constexpr std::string_view kPrefix = "instances_";
constexpr std::string_view kEnding = ".json";
constexpr std::array<std::string_view, 3> kSources = {"boxes", "labels", "iscrowd"};

// The names of a folder's files instances_*.json that have `part` after the prefix, sorted.
std::vector<std::string> annotation_files(const fs::path& folder, std::string_view part = "") {
    std::vector<std::string> names;
    if (is_folder(folder)) {
        for (const fs::path& path : list_folder(folder)) {
            const std::string name = path.filename().string();
            if (name.starts_with(kPrefix) && name.ends_with(kEnding) &&
                std::string_view(name).substr(kPrefix.size()).starts_with(part)) {
                names.push_back(name);
            }
        }
    }
    std::ranges::sort(names);
    return names;
}

fs::path annotation_file(const std::string& data, Split split) {
    if (!is_folder(data)) {
        return data;
    }
    const fs::path folder = fs::path(data) / kAnnotations;
    std::vector<std::string> names = annotation_files(folder, split == Split::train ? "train" : "val");
    if (names.empty()) {
        names = annotation_files(folder);
    }
    if (names.size() != 1) {
        throw DataError({.path = folder.string()}, {.where = "coco",
                                                    .expected = "one file instances_*.json for each split",
                                                    .got = fmt::format("{}", names.size()),
                                                    .hint = "give the path of the file"});
    }
    return folder / names.front();
}

// The folder with the images: the first of the usual ones in which one of the first images is found.
fs::path image_folder(const fs::path& json, std::span<const std::string> files) {
    constexpr std::size_t kTried = 16;
    const fs::path beside = json.parent_path().empty() ? "." : json.parent_path();
    const fs::path root = beside.filename() == kAnnotations ? beside / ".." : beside;
    const std::string stem = json.stem().string();
    const std::string part = stem.starts_with(kPrefix) ? stem.substr(kPrefix.size()) : stem;
    const fs::path candidates[] = {root / part, root / "images" / part, root / "images", root};
    const auto holds_images = [&](const fs::path& folder) {
        return std::ranges::any_of(files.first(std::min(files.size(), kTried)),
                                   [&](const std::string& file) { return is_file(folder / file); });
    };
    const auto* const found = std::ranges::find_if(candidates, holds_images);
    if (found != std::end(candidates)) {
        return *found;
    }
    throw DataError(
        {.path = json.string()},
        {.where = "coco",
         .expected = fmt::format("its images in {}, {} or {}", candidates[0].lexically_normal().string(),
                                 candidates[1].lexically_normal().string(), candidates[2].lexically_normal().string()),
         .got = fmt::format("no {}", files.front()),
         .hint = "name their folder with data.fields.image"});
}

}  // namespace

bool is_coco_path(const std::string& path) {
    return is_folder(path) ? !annotation_files(fs::path(path) / kAnnotations).empty()
                           : is_file(path) && lower_case(path).ends_with(kEnding);
}

bool coco_has_splits(const std::string& path) {
    const fs::path folder = fs::path(path) / kAnnotations;
    return annotation_files(folder, "train").size() == 1 && annotation_files(folder, "val").size() == 1;
}

namespace {

// Searched in the same order as images: next to the folder `annotations`, then next to the file.
fs::path named_folder(const fs::path& annotations, const std::string& image) {
    const fs::path beside = annotations.parent_path();
    const fs::path root = beside.filename() == kAnnotations ? beside.parent_path() : beside;
    return !is_folder((root / image).string()) && is_folder((beside / image).string()) ? beside / image : root / image;
}

}  // namespace

CocoDataset::CocoDataset(const std::string& path, Split split, const FieldNames& fields)
    : path_(annotation_file(path, split).string()) {
    const MappedFile file{fs::path(path_)};
    CocoIndex index = with_place({.path = path_}, [&] { return parse_coco(as_text(file.bytes())); });
    const fs::path folder = fields.image.empty() ? image_folder(path_, index.files) : named_folder(path_, fields.image);
    files_ = std::make_unique<SampleFiles>(folder, 1);
    for (const std::string& name : index.files) {
        files_->add(0, name);
    }
    begins_ = std::move(index.begins);
    classes_ = std::move(index.classes);
    for (const CocoBox& box : index.boxes) {
        push_checked(boxes_, box.corners);
        push_checked(labels_, box.label);
        push_checked(crowds_, box.crowd);
    }
    for (const FieldRequest& request :
         fields.more.empty() ? std::vector<FieldRequest>{{.name = "boxes"}, {.name = "labels"}} : fields.more) {
        add_field(request);
    }
}

void CocoDataset::add_field(const FieldRequest& request) {
    const auto* const found = std::ranges::find(kSources, request.source());
    if (found == kSources.end()) {
        throw DataError(
            {.path = path_},
            {.where = request.name, .expected = "a field boxes, labels or iscrowd", .got = request.source()});
    }
    const auto source = static_cast<Source>(found - kSources.begin());
    const Field stored = stored_fields()[static_cast<std::size_t>(source)];
    FieldRequest as = request;
    as.kind = request.kind.value_or(stored.kind);
    if (source == Source::boxes && as.kind != FieldKind::boxes) {
        throw Unsupported({.where = fmt::format("{}: {}", path_, request.name),
                           .expected = "is = \"boxes\", so that they follow the image",
                           .got = std::string(field_kind_name(*as.kind))});
    }
    fields_.push_back(array_field(as, stored.dtype, stored.shape, fmt::format("{}: {}", path_, request.name)));
    if (source == Source::labels && *as.kind == FieldKind::label) {
        fields_.back().classes = classes_;
    }
    sources_.push_back(source);
}

std::vector<Field> CocoDataset::stored_fields() const {  // in the order of Source
    return {{.name = "boxes", .kind = FieldKind::boxes, .dtype = DType::float32, .shape = {-1, 4}},
            {.name = "labels", .kind = FieldKind::label, .dtype = DType::int64, .shape = {-1}},
            {.name = "iscrowd", .kind = FieldKind::value, .dtype = DType::uint8, .shape = {-1}}};
}

std::string CocoDataset::key(std::int64_t index) const {
    check_index(index);
    return std::string(files_->name(0, index));
}

void CocoDataset::read(std::int64_t index, Sample& sample) const {
    check_index(index);
    files_->read(0, index, sample);
    sample.label = -1;
    const auto at = static_cast<std::size_t>(index);
    const std::size_t begin = begins_[at];
    const std::size_t count = begins_[at + 1] - begin;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
        FieldValue& value = sample.field(i);
        switch (sources_[i]) {
            case Source::boxes:
                value.set_elements(std::span(boxes_).subspan(begin, count));
                break;
            case Source::labels:
                value.set_elements(std::span(labels_).subspan(begin, count));
                break;
            case Source::iscrowd:
                value.set_elements(std::span(crowds_).subspan(begin, count));
                break;
        }
    }
}

}  // namespace stoker
