// simdjson parses each image, annotation and category separately. Members that are not needed, such as polygons, are
// skipped.
#include "stoker/formats/coco/coco_index.h"

#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/formats/checked_growth.h"
#include "stoker/formats/coco/json_elements.h"
#include "stoker/formats/sample_files.h"

namespace stoker {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr std::size_t kMaxElement = std::size_t{64} << 20;

struct CocoImage {
    std::int64_t id = 0;
    std::string file;
};

struct Category {
    std::int64_t id = 0;
    std::string name;
};

struct Annotation {
    std::int64_t image = 0;
    std::int64_t category = 0;
    CocoBox box;
};

[[noreturn]] void refuse(std::string expected, std::string got, std::optional<std::int64_t> offset = std::nullopt) {
    throw DataError({.path = {}, .offset = offset},
                    {.where = "coco", .expected = std::move(expected), .got = std::move(got)});
}

// One element of an array, as simdjson wants it: followed by bytes that may be read.
class ElementParser {
  public:
    // Calls `member(key, value)` for the members of the element, an object. `member` returns an error of simdjson.
    template <typename Member>
    void read(const JsonElement& element, const Member& member) {
        const auto fail = [&](const char* got) {
            refuse(fmt::format("a JSON object in {}", element.key), got, static_cast<std::int64_t>(element.offset));
        };
        const std::size_t size = element.text.size();
        if (size > kMaxElement) {
            fail("one of more than 64 MiB");
        }
        if (padded_.size() < size + simdjson::SIMDJSON_PADDING) {
            padded_.resize(std::max(2 * size, std::size_t{4096}) + simdjson::SIMDJSON_PADDING);
        }
        std::memcpy(padded_.data(), element.text.data(), size);
        ondemand::document document;
        ondemand::object object;
        auto error = parser_.iterate(padded_.data(), size, padded_.size()).get(document);
        if (error == simdjson::SUCCESS) {
            error = document.get_object().get(object);
        }
        if (error != simdjson::SUCCESS) {
            fail(simdjson::error_message(error));
        }
        for (auto each : object) {
            ondemand::field field;
            std::string_view key;
            error = std::move(each).get(field);
            if (error == simdjson::SUCCESS) {
                error = field.unescaped_key().get(key);
            }
            if (error == simdjson::SUCCESS) {
                error = member(key, field.value());
            }
            if (error != simdjson::SUCCESS) {
                refuse(fmt::format("\"{}\" in {} as COCO has it", key.substr(0, 40), element.key),
                       simdjson::error_message(error), static_cast<std::int64_t>(element.offset));
            }
        }
    }

  private:
    ondemand::parser parser_;
    std::vector<char> padded_;
};

simdjson::error_code read_name(ondemand::value value, std::string& name) {
    std::string_view read;
    const auto error = value.get_string().get(read);
    name = error == simdjson::SUCCESS ? read : std::string_view();
    return error;
}

// [x, y, width, height] as corners, added as float32 as torchvision adds them.
simdjson::error_code read_box(ondemand::value value, CocoBox& box, bool& has_box) {
    ondemand::array array;
    if (const auto error = value.get_array().get(array); error != simdjson::SUCCESS) {
        return error;
    }
    std::array<float, 4> numbers = {};
    std::size_t count = 0;
    for (auto each : array) {
        double number = 0;
        if (const auto error = each.get_double().get(number); error != simdjson::SUCCESS) {
            return error;
        }
        if (count < numbers.size()) {
            numbers[count] = static_cast<float>(number);
        }
        ++count;
    }
    const auto [x, y, width, height] = numbers;
    box.corners = {x, y, x + width, y + height};
    has_box = count == 4 && width >= 0 && height >= 0 &&
              std::ranges::all_of(box.corners, [](float side) { return std::isfinite(side); });
    return simdjson::SUCCESS;
}

// Crowds are 0 and 1, also as false and true.
simdjson::error_code read_crowd(ondemand::value value, std::uint8_t& crowd) {
    std::int64_t number = 0;
    bool flag = false;
    if (value.get_int64().get(number) == simdjson::SUCCESS) {
        crowd = number != 0 ? 1 : 0;
        return simdjson::SUCCESS;
    }
    const auto error = value.get_bool().get(flag);
    crowd = flag ? 1 : 0;
    return error;
}

class CocoReader {
  public:
    void read(const JsonElement& element) {
        if (element.key == "images") {
            read_image(element);
        } else if (element.key == "annotations") {
            read_annotation(element);
        } else if (element.key == "categories") {
            read_category(element);
        }
    }

    CocoIndex finish() {
        if (images_.empty() || categories_.empty()) {
            refuse("an object with the arrays images, annotations and categories",
                   fmt::format("{} images and {} categories", images_.size(), categories_.size()));
        }
        sort_by_id(images_, "images");
        sort_by_id(categories_, "categories");
        for (Annotation& annotation : annotations_) {
            annotation.image = position(images_, annotation.image, "image_id");
            annotation.box.label = position(categories_, annotation.category, "category_id");
        }
        std::ranges::stable_sort(annotations_, {}, &Annotation::image);
        CocoIndex index;
        grow_checked(index.boxes, annotations_.size());
        for (std::size_t image = 0, at = 0; image < images_.size(); ++image) {
            index.begins.push_back(at);
            index.files.push_back(std::move(images_[image].file));
            for (; at < annotations_.size() && annotations_[at].image == static_cast<std::int64_t>(image); ++at) {
                index.boxes.push_back(annotations_[at].box);
            }
        }
        index.begins.push_back(index.boxes.size());
        for (Category& category : categories_) {
            index.classes.push_back(std::move(category.name));
        }
        return index;
    }

  private:
    void read_image(const JsonElement& element) {
        CocoImage image;
        bool has_id = false;
        parser_.read(element, [&](std::string_view key, ondemand::value value) -> simdjson::error_code {
            if (key == "id") {
                has_id = true;
                return value.get_int64().get(image.id);
            }
            return key == "file_name" ? read_name(value, image.file) : simdjson::SUCCESS;
        });
        if (!has_id || !stays_within_folder(image.file)) {
            refuse("an image with an id and a file_name within its folder",
                   has_id ? fmt::format("{:?}", std::string_view(image.file).substr(0, 200)) : "no id",
                   static_cast<std::int64_t>(element.offset));
        }
        push_checked(images_, std::move(image));
    }

    void read_category(const JsonElement& element) {
        Category category;
        bool has_id = false;
        parser_.read(element, [&](std::string_view key, ondemand::value value) -> simdjson::error_code {
            if (key == "id") {
                has_id = true;
                return value.get_int64().get(category.id);
            }
            return key == "name" ? read_name(value, category.name) : simdjson::SUCCESS;
        });
        if (!has_id || category.name.empty()) {
            refuse("a category with an id and a name", has_id ? "no name" : "no id",
                   static_cast<std::int64_t>(element.offset));
        }
        push_checked(categories_, std::move(category));
    }

    void read_annotation(const JsonElement& element) {
        Annotation annotation;
        bool has_image = false;
        bool has_category = false;
        bool has_box = false;
        parser_.read(element, [&](std::string_view key, ondemand::value value) -> simdjson::error_code {
            if (key == "image_id") {
                has_image = true;
                return value.get_int64().get(annotation.image);
            }
            if (key == "category_id") {
                has_category = true;
                return value.get_int64().get(annotation.category);
            }
            if (key == "bbox") {
                return read_box(value, annotation.box, has_box);
            }
            return key == "iscrowd" ? read_crowd(value, annotation.box.crowd) : simdjson::SUCCESS;
        });
        if (!has_image || !has_category || !has_box) {
            refuse("an annotation with image_id, category_id and a bbox of x, y, width and height",
                   !has_image      ? "no image_id"
                   : !has_category ? "no category_id"
                                   : "no such bbox",
                   static_cast<std::int64_t>(element.offset));
        }
        push_checked(annotations_, annotation);
    }

    template <typename Item>
    static void sort_by_id(std::vector<Item>& items, const char* where) {
        std::ranges::sort(items, {}, &Item::id);
        const auto twice = std::ranges::adjacent_find(items, {}, &Item::id);
        if (twice != items.end()) {
            refuse(fmt::format("unique ids of {}", where), fmt::format("{} twice", twice->id));
        }
    }

    // The position of the item with this id.
    template <typename Item>
    static std::int64_t position(const std::vector<Item>& items, std::int64_t id, const char* member) {
        const auto found = std::ranges::lower_bound(items, id, {}, &Item::id);
        if (found == items.end() || found->id != id) {
            refuse(fmt::format("the {} of an annotation to be one that the file has", member), fmt::to_string(id));
        }
        return found - items.begin();
    }

    ElementParser parser_;
    std::vector<CocoImage> images_;
    std::vector<Category> categories_;
    std::vector<Annotation> annotations_;
};

}  // namespace

CocoIndex parse_coco(std::string_view json) {
    CocoReader reader;
    each_json_element(json, [&](const JsonElement& element) { reader.read(element); });
    return reader.finish();
}

}  // namespace stoker
