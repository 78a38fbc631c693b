#include "stoker/codecs/heif_references.h"

namespace stoker {
namespace {

using namespace std::string_view_literals;

// The image has its tiles, its auxiliary images, thumbnails and descriptions, whichever of them refers to the other.
void join(std::string_view type, std::uint64_t from, std::uint64_t to, HeifItems& items) {
    const bool backwards = type == "auxl"sv || type == "thmb"sv || type == "cdsc"sv;
    const auto owner = items.all.find(backwards ? to : from);
    if (owner == items.all.end()) {
        return;
    }
    const std::uint64_t part = backwards ? from : to;
    owner->second.parts.push_back(part);
    if (type == "dimg"sv) {
        owner->second.tiles.push_back(part);
    } else if (type == "auxl"sv) {
        owner->second.auxiliary.push_back(part);
    }
}

// Takes away items that belong to no other item, until only those of circles are left.
bool has_circle(const HeifItems& items) {
    std::map<std::uint64_t, std::size_t> owners;
    for (const auto& [number, item] : items.all) {
        for (const std::uint64_t part : item.parts) {
            ++owners[part];
        }
    }
    std::vector<const HeifItem*> free;
    for (const auto& [number, item] : items.all) {
        if (!owners.contains(number)) {
            free.push_back(&item);
        }
    }
    std::size_t taken = 0;
    for (; !free.empty(); ++taken) {
        const HeifItem& item = *free.back();
        free.pop_back();
        for (const std::uint64_t part : item.parts) {
            const auto found = items.all.find(part);
            if (--owners[part] == 0 && found != items.all.end()) {
                free.push_back(&found->second);
            }
        }
    }
    return taken != items.all.size();
}

bool is_grid_of_coded(const HeifItem& item, const HeifItems& items) {
    for (const std::uint64_t tile : item.tiles) {
        const auto found = items.all.find(tile);
        if (found == items.all.end() || !found->second.coded()) {
            return false;
        }
    }
    return !item.tiles.empty();
}

}  // namespace

void read_heif_references(std::span<const std::byte> box, HeifItems& items) {
    if (box.empty()) {
        return;
    }
    Numbers head(box);
    const std::size_t size = head.take(4) >> 24 == 0 ? 2 : 4;
    if (!head.complete()) {
        refuse_heif(items.codec, "a damaged list of references");
    }
    const std::byte* expected = box.data() + 4;
    for (const FileBox& reference : whole_boxes_in(box.subspan(4), items.codec)) {
        Numbers numbers(reference.content);
        const std::uint64_t from = numbers.take(size);
        std::uint64_t count = numbers.take(2);
        // libheif ignores the sizes of these boxes, and reads one after the other.
        const bool plain = reference.content.data() == expected + 8 && reference.type != "uuid"sv;
        if (!plain || reference.content.size() != size + 2 + count * size) {
            refuse_heif(items.codec, "a damaged list of references");
        }
        expected = reference.content.data() + reference.content.size();
        for (; count > 0; --count) {
            const std::uint64_t to = numbers.take(size);
            if (from == to) {
                refuse_heif(items.codec, "an item that refers to itself");
            }
            join(reference.type, from, to, items);
        }
    }
}

void check_heif_references(const HeifItems& items) {
    if (has_circle(items)) {
        refuse_heif(items.codec, "items that refer to each other in a circle");
    }
    for (const auto& [number, item] : items.all) {
        if (item.type == "iden"sv || item.type == "iovl"sv) {
            refuse_heif(items.codec, "derived images of another kind than grids");
        }
        if (item.type == "grid"sv && !is_grid_of_coded(item, items)) {
            refuse_heif(items.codec, "a grid of other than coded images");
        }
    }
    if (!items.shown().coded() && items.shown().type != "grid"sv) {
        refuse_heif(items.codec, "a primary image that is neither coded nor a grid");
    }
}

}  // namespace stoker
