#include "stoker/codecs/heif_items.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "stoker/base/error.h"
#include "stoker/codecs/heif_boxes.h"
#include "stoker/codecs/heif_references.h"

namespace stoker {
namespace {

using namespace std::string_view_literals;

using Bytes = std::span<const std::byte>;

class ItemReader {
  public:
    explicit ItemReader(Bytes file) : file_(file) { items_.codec = heif_codec(file).value_or(Codec::avif); }

    HeifItems read() {
        const std::vector<FileBox> top = boxes_in(file_);
        refuse_if(top.size() >= kMostBoxes, "too many boxes");
        const Bytes meta = only(top, "meta"sv);
        refuse_if(meta.size() < 4, "a damaged box");
        const std::vector<FileBox> boxes = list(meta.subspan(4));
        read_types(only(boxes, "iinf"sv));
        read_primary(only(boxes, "pitm"sv));
        read_places(only(boxes, "iloc"sv), only(boxes, "idat"sv, /*needed=*/false));
        read_properties(list(only(boxes, "iprp"sv)));
        read_heif_references(only(boxes, "iref"sv, /*needed=*/false), items_);
        check_heif_references(items_);
        return std::move(items_);
    }

  private:
    void refuse_if(bool wrong, std::string_view got) const {
        if (wrong) {
            refuse_heif(items_.codec, std::string(got));
        }
    }

    std::vector<FileBox> list(Bytes bytes) const { return whole_boxes_in(bytes, items_.codec); }

    Bytes only(const std::vector<FileBox>& boxes, std::string_view type, bool needed = true) const {
        const auto found = std::ranges::find(boxes, type, &FileBox::type);
        refuse_if(std::ranges::count(boxes, type, &FileBox::type) > 1, fmt::format("several boxes '{}'", type));
        refuse_if(found == boxes.end() && needed, fmt::format("no box '{}'", type));
        return found == boxes.end() ? Bytes() : found->content;
    }

    void read_types(Bytes content) {
        Numbers numbers(content);
        const bool wide = numbers.take(4) >> 24 > 0;
        const std::uint64_t count = numbers.take(wide ? 4 : 2);
        refuse_if(!numbers.complete(), "a damaged list of items");
        const std::vector<FileBox> entries = list(content.subspan(wide ? 8 : 6));
        refuse_if(entries.size() != count, "a damaged list of items");
        for (const FileBox& entry : entries) {
            Numbers fields(entry.content);
            const std::uint64_t version = fields.take(4) >> 24;
            const std::size_t size = version == 2 ? 2 : 4;
            const std::uint64_t item = fields.take(size);
            constexpr std::size_t kType = 4 + 2;  // behind version and protection
            refuse_if(entry.type != "infe"sv || version < 2 || version > 3 || entry.content.size() < kType + size + 4,
                      "a damaged list of items");
            refuse_if(items_.all.contains(item), "several items of one number");
            items_.all[item].type = text_of(entry.content, kType + size, 4);
        }
    }

    void read_primary(Bytes content) {
        Numbers numbers(content);
        items_.primary = numbers.take(numbers.take(4) >> 24 == 0 ? 2 : 4);
        refuse_if(!numbers.complete() || !items_.all.contains(items_.primary), "no primary image");
    }

    void read_places(Bytes content, Bytes inside) {
        Numbers numbers(content);
        const std::uint64_t version = numbers.take(4) >> 24;
        const std::uint64_t sizes = numbers.take(2);
        for (int shift = 12; shift >= 0; shift -= 4) {
            const std::uint64_t size = sizes >> shift & 15;
            const bool unused = shift == 0 && version < 2;  // libheif 1.15 reads no index in version 1
            refuse_if(size != 0 && (unused || (size != 4 && size != 8)), "offsets of a size that is not 0, 4 or 8");
        }
        refuse_if(version > 2, "a damaged list of places");
        std::set<std::uint64_t> placed;
        for (std::uint64_t left = numbers.take(version < 2 ? 2 : 4); left > 0; --left) {
            const std::uint64_t item = numbers.take(version < 2 ? 2 : 4);
            const std::uint64_t method = version > 0 ? numbers.take(2) & 15 : 0;
            refuse_if(method > 1, "content in other items");
            refuse_if(!placed.insert(item).second, "several places of one item");
            read_extents(numbers, sizes, method == 1 ? inside : file_, item);
            refuse_if(!numbers.complete(), "a damaged list of places");
        }
    }

    void read_extents(Numbers& numbers, std::uint64_t sizes, Bytes source, std::uint64_t item) {
        const auto size = [&](int shift) { return static_cast<std::size_t>(sizes >> shift & 15); };
        const auto found = items_.all.find(item);
        numbers.take(2);
        const std::uint64_t base = numbers.take(size(4));
        std::uint64_t left = numbers.take(2);
        refuse_if(left > 1 && size(8) == 0, "content without a length");
        for (; left > 0 && numbers.complete(); --left) {
            numbers.take(size(0));
            const std::uint64_t offset = numbers.take(size(12));
            const std::uint64_t length = numbers.take(size(8));
            refuse_if(base > source.size() || offset > source.size() - base || length > source.size() - base - offset,
                      "content behind the end of the file");
            room_ -= std::min(room_, length);
            refuse_if(room_ == 0, "content that is used again and again");
            if (found != items_.all.end()) {
                const bool image = found->second.coded() || found->second.type == "grid"sv;
                refuse_if(length == 0 && image, "content without a length");  // 0 bytes or all, by the reader
                found->second.content.push_back(source.subspan(base + offset, length));
            }
        }
    }

    void read_properties(const std::vector<FileBox>& boxes) {
        const std::vector<FileBox> all = list(only(boxes, "ipco"sv));
        for (const FileBox& box : boxes) {
            if (box.type != "ipma"sv) {
                continue;
            }
            Numbers numbers(box.content);
            const std::uint64_t head = numbers.take(4);
            for (std::uint64_t left = numbers.take(4); left > 0 && !numbers.at_end(); --left) {
                const auto found = items_.all.find(numbers.take(head >> 24 < 1 ? 2 : 4));
                for (std::uint64_t count = numbers.take(1); count > 0; --count) {
                    const std::uint64_t number = (head & 1) != 0 ? numbers.take(2) & 0x7FFF : numbers.take(1) & 0x7F;
                    refuse_if(!numbers.complete() || number > all.size(), "a damaged list of properties");
                    if (number > 0 && found != items_.all.end()) {
                        found->second.properties.push_back(all[number - 1]);
                    }
                }
            }
        }
    }

    Bytes file_;
    HeifItems items_;
    std::uint64_t room_ = 2 * file_.size() + 1;  // for the content of all items
};

}  // namespace

std::vector<std::byte> HeifItem::joined_content() const {
    std::vector<std::byte> all;
    for (const Bytes part : content) {
        all.insert(all.end(), part.begin(), part.end());
    }
    return all;
}

std::vector<FileBox> whole_boxes_in(std::span<const std::byte> bytes, Codec codec) {
    std::vector<FileBox> boxes = boxes_in(bytes);
    if (boxes.size() >= kMostBoxes) {
        refuse_heif(codec, "too many boxes");
    }
    const std::byte* end = boxes.empty() ? bytes.data() : boxes.back().content.data() + boxes.back().content.size();
    if (end != bytes.data() + bytes.size()) {
        refuse_heif(codec, "a damaged box");
    }
    return boxes;
}

HeifItems read_heif_items(std::span<const std::byte> bytes) {
    return ItemReader(bytes).read();
}

void refuse_heif(Codec codec, std::string got) {
    const bool avif = codec == Codec::avif;
    throw DataError(
        {},
        {.where = avif ? "avif" : "heic", .expected = avif ? "a valid AVIF" : "a valid HEIC", .got = std::move(got)});
}

GridCanvas grid_canvas(Codec codec, const HeifItem& grid) {
    const std::vector<std::byte> content = grid.joined_content();
    Numbers numbers(content);
    const std::size_t size = (numbers.take(2) & 1) != 0 ? 4 : 2;
    numbers.take(2);  // rows and columns
    GridCanvas canvas;
    canvas.width = numbers.take(size);
    canvas.height = numbers.take(size);
    if (!numbers.complete()) {
        refuse_heif(codec, "a grid without a size");
    }
    return canvas;
}

}  // namespace stoker
