// The members of WebDataset samples that may be further fields, for `stoker inspect`: those of one shard.
#include <algorithm>
#include <fmt/format.h>
#include <optional>

#include "stoker/base/error.h"
#include "stoker/formats/field_values.h"
#include "stoker/formats/webdataset/sample_grouper.h"
#include "stoker/formats/webdataset/webdataset.h"

namespace stoker {
namespace {

// The extensions that TarIndex::extensions lists.
std::vector<FieldRequest> requests_of(std::string_view listed) {
    std::vector<FieldRequest> requests;
    while (!listed.empty()) {
        const std::size_t end = std::min(listed.find(", "), listed.size());
        requests.push_back({.name = std::string(listed.substr(0, end))});
        listed.remove_prefix(std::min(end + 2, listed.size()));
    }
    return requests;
}

// True for a member, or a key of JSON, that is read for the label.
bool is_label(const FieldRequest& request, const FieldNames& names) {
    const TarFieldSource source(request);
    return std::ranges::any_of(label_members(names.label), [&](const LabelMember& member) {
        const bool found =
            source.key.empty() ? member.keys.empty() : std::ranges::find(member.keys, source.key) != member.keys.end();
        return member.strict && member.extension == source.extension && found;
    });
}

struct FirstPlace {
    std::optional<TarFieldPlace> place;  // empty: no sample has the member, or it is their image
    bool ragged = false;                 // the sizes differ
};

FirstPlace first_place(const TarIndex& index, std::size_t field) {
    FirstPlace first;
    for (std::int64_t i = 0; i < index.size(); ++i) {
        const TarFieldPlace& place = index.field(i, field);
        const bool has_image = static_cast<TarImage>(index[i].image) != TarImage::none;
        if (place.present == 0 || (has_image && index[i].offset == place.offset)) {
            continue;
        }
        first.place = first.place.value_or(place);
        first.ragged = first.ragged || place.size != first.place->size;
    }
    return first;
}

// Bytes if the value is nothing else that is known.
Field guessed_field(const FieldRequest& request, std::span<const std::byte> bytes, bool ragged) {
    Field field{.name = request.name, .kind = FieldKind::bytes, .dtype = DType::uint8, .shape = {-1}};
    try {
        field = describe_tar_field(request, TarFieldSource(request), bytes, ragged, request.name);
    } catch (const DataError&) {
    } catch (const Unsupported&) {
    }
    if (field.kind == FieldKind::image) {
        field.kind = guessed_image_kind(field.name);
    } else if (field.kind == FieldKind::value) {
        field.kind = guessed_kind(field.name, field.dtype, field.shape);
    }
    return field;
}

}  // namespace

std::vector<Field> WebDataset::stored_fields() const {
    const auto filled = std::ranges::find_if(indices_, [](const TarIndex& index) { return index.size() > 0; });
    const auto shard = static_cast<std::size_t>(filled - indices_.begin());
    std::vector<FieldRequest> requests = requests_of(filled->extensions());
    std::erase_if(requests, [&](const FieldRequest& request) { return is_label(request, names_); });
    const ShardFiles::Handle file = shards_.files().open(shard);
    FieldNames all{.image = names_.image, .label = names_.label, .more = requests};
    for (FieldRequest& request : all.more) {
        request.kind = FieldKind::image;  // so that members are the samples' images as ever
    }
    const TarIndex index = make_tar_index(*file, all);
    std::vector<Field> found;
    Buffer storage;
    for (std::size_t i = 0; i < requests.size(); ++i) {
        const auto [place, ragged] = first_place(index, i);
        if (!place) {
            continue;
        }
        const std::span<const std::byte> bytes = shards_.read(shard, {place->offset, place->size}, storage);
        found.push_back(guessed_field(requests[i], bytes, ragged));
        const std::string& extension = requests[i].name;
        const bool json = extension == "json" || extension.ends_with(".json");
        for (const std::string& key : json ? json_number_keys(bytes) : std::vector<std::string>()) {
            const FieldRequest request{.name = fmt::format("{}:{}", extension, key)};
            if (!is_label(request, names_)) {
                found.push_back(guessed_field(request, bytes, false));
            }
        }
    }
    return found;
}

}  // namespace stoker
