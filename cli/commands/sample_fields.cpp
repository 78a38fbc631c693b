#include "cli/commands/sample_fields.h"

#include <array>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

#include "cli/terminal/table.h"
#include "stoker/base/dtype.h"
#include "stoker/base/float16.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/utf8.h"

namespace stoker::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostInCell = 6;  // numbers

template <typename T>
T element(std::span<const std::byte> bytes, std::size_t at) {
    T value;
    std::memcpy(&value, bytes.data() + at * sizeof(T), sizeof(T));
    return value;
}

Json number(DType dtype, std::span<const std::byte> bytes, std::size_t at) {
    switch (dtype) {
        case DType::uint8:
            return element<std::uint8_t>(bytes, at);
        case DType::uint16:
            return element<std::uint16_t>(bytes, at);
        case DType::int16:
            return element<std::int16_t>(bytes, at);
        case DType::int32:
            return element<std::int32_t>(bytes, at);
        case DType::int64:
            return element<std::int64_t>(bytes, at);
        case DType::float16:
            return from_float16(element<std::uint16_t>(bytes, at));
        case DType::bfloat16:
            return from_bfloat16(element<std::uint16_t>(bytes, at));
        case DType::float32:
            return element<float>(bytes, at);
        case DType::float64:
            return element<double>(bytes, at);
    }
    return nullptr;
}

std::string number_text(const Json& number) {
    return number.is_number_float() ? fmt::format("{:.5g}", number.get<double>()) : json_text(number);
}

// "0.5", "1 0 0 1", "3 8 1 9 2 7 ... (64)"
std::string numbers_text(const Json& numbers) {
    if (!numbers.is_array()) {
        return number_text(numbers);
    }
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < std::min(numbers.size(), kMostInCell); ++i) {
        texts.push_back(number_text(numbers[i]));
    }
    return fmt::format("{}{}", fmt::join(texts, " "),
                       numbers.size() > kMostInCell ? fmt::format(" ... ({})", numbers.size()) : "");
}

// A number for a field without a shape, otherwise all numbers in stored order.
Json numbers_json(const Field& field, std::span<const std::byte> bytes) {
    const std::size_t count = bytes.size() / item_size(field.dtype);
    if (field.shape.empty() && count == 1) {
        return number(field.dtype, bytes, 0);
    }
    Json numbers = Json::array();
    for (std::size_t at = 0; at < count; ++at) {
        numbers.push_back(number(field.dtype, bytes, at));
    }
    return numbers;
}

Json boxes_json(const std::vector<float>& boxes) {
    Json all = Json::array();
    for (std::size_t i = 0; i + 3 < boxes.size(); i += 4) {
        all.push_back({boxes[i], boxes[i + 1], boxes[i + 2], boxes[i + 3]});
    }
    return all;
}

Json classes_in(ConstImageView mask) {
    std::set<int> classes;
    for (int y = 0; y < mask.height; ++y) {
        classes.insert(mask.row(y), mask.row(y) + mask.width);
    }
    return classes;
}

std::string text_of(std::span<const std::byte> bytes) {
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return is_utf8(text) ? text : pluralize(static_cast<std::int64_t>(bytes.size()), "byte");
}

// Mixes the image in equal parts with a colour for each class above 0: class 0 is the background of most masks.
void tint(ConstImageView mask, ImageView image) {
    constexpr std::array<std::array<int, 3>, 8> kColours = {{{230, 25, 75},
                                                             {60, 180, 75},
                                                             {0, 130, 255},
                                                             {255, 200, 0},
                                                             {200, 40, 230},
                                                             {0, 210, 210},
                                                             {245, 130, 48},
                                                             {255, 255, 255}}};
    for (int y = 0; y < image.height; ++y) {
        const std::uint8_t* from = mask.row(y);
        std::uint8_t* to = image.row(y);
        for (int x = 0; x < image.width; ++x) {
            const auto& colour = kColours[(from[x] + kColours.size() - 1) % kColours.size()];
            for (std::size_t c = 0; from[x] != 0 && c < 3; ++c) {
                std::uint8_t& level = to[3 * static_cast<std::size_t>(x) + c];
                level = static_cast<std::uint8_t>((level + colour[c]) / 2);
            }
        }
    }
}

}  // namespace

std::vector<Field> shown_fields(const Dataset& dataset) {
    std::vector<Field> fields(dataset.fields().begin(), dataset.fields().end());
    std::erase_if(fields, [](const Field& field) { return field.kind == FieldKind::image; });
    return fields;
}

SampleFields sample_fields(TrainingData& data) {
    SampleFields shown;
    const std::span<const Field> fields = data.dataset().fields();
    for (std::size_t i = 0; i < fields.size(); ++i) {
        const Field& field = fields[i];
        Json& json = shown.json[field.name];
        switch (field.kind) {
            case FieldKind::image:
                shown.json.erase(field.name);
                break;
            case FieldKind::mask: {
                const Json classes = classes_in(data.mask(i));
                json = {{"classes", classes}};
                shown.cells.push_back("classes " + numbers_text(classes));
                break;
            }
            case FieldKind::boxes:
                json = boxes_json(data.boxes(i));
                shown.cells.push_back(fmt::format("{} {}", json.size(), json.size() == 1 ? "box" : "boxes"));
                break;
            case FieldKind::bytes:
                json = text_of(data.field(i).bytes);
                shown.cells.push_back(for_terminal(json.get<std::string>(), 30));
                break;
            default:
                json = numbers_json(field, data.field(i).bytes);
                shown.cells.push_back(numbers_text(json));
        }
    }
    return shown;
}

void add_overlays(TrainingData& data, GridImage& to) {
    const std::span<const Field> fields = data.dataset().fields();
    for (std::size_t i = 0; i < fields.size(); ++i) {
        if (fields[i].kind == FieldKind::boxes) {
            const std::vector<float> boxes = data.boxes(i);
            to.boxes.insert(to.boxes.end(), boxes.begin(), boxes.end());
        } else if (fields[i].kind == FieldKind::mask) {
            const ConstImageView mask = data.mask(i);
            if (mask.height == to.image.height() && mask.width == to.image.width()) {  // not if its ops differ
                tint(mask, to.image.view());
            }
        }
    }
}

}  // namespace stoker::cli
