// COCO's annotations: order, boxes, classes, the places of the images, and hostile files.
#include "stoker/formats/coco/coco_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

#include "formats/field_value_support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/coco/json_elements.h"
#include "stoker/formats/open.h"
#include "support/put.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::numbers_of;
using testing::put;
using testing::TempDir;

// Image 7 has two boxes, image 9 none, image 3 a crowd; members that are not needed are between them.
constexpr std::string_view kJson = R"({"info": {"year": 2017, "text": "a \"]}\" \\"}, "licenses": [{"id": 1}],
 "annotations": [
  {"segmentation": [[1.5, 2, 3, 4]], "area": 8.1, "iscrowd": 0,
   "image_id": 7, "bbox": [1, 2, 10.5, 20], "category_id": 90, "id": 1},
  {"segmentation": {"counts": [1, 2], "size": [3, 4]},
   "iscrowd": 1, "image_id": 3, "bbox": [0.25, 0, 1, 2], "category_id": 1, "id": 2},
  {"id": 3, "bbox": [5, 5, 0, 3], "category_id": 1, "image_id": 7}],
 "images": [{"file_name": "b.jpg", "id": 7, "height": 5},
  {"id": 9, "file_name": "sub/\u00e9.jpg"}, {"id": 3, "file_name": "a.jpg"}],
 "categories": [{"supercategory": "x", "id": 90, "name": "toothbrush"}, {"id": 1, "name": "person"}]}
)";

std::string error_of(std::string_view json) {
    try {
        parse_coco(json);
    } catch (const DataError& error) {
        return error.what();
    }
    return "read";
}

std::string replaced(std::string_view part, std::string_view by) {
    std::string json(kJson);
    const std::size_t at = json.find(part);
    EXPECT_NE(at, std::string::npos) << part;
    return json.replace(at, part.size(), by);
}

TEST(Coco, SamplesAndFields) {
    const TempDir dir;
    put(dir / "annotations/instances_train2017.json", kJson);
    put(dir / "train2017/a.jpg", "image a");
    put(dir / "train2017/b.jpg", "image b");
    put(dir / "train2017/sub/\xc3\xa9.jpg", "image e");
    const auto dataset = open_dataset(dir.path().string(), Split::train);
    EXPECT_EQ(dataset->format(), "coco");
    EXPECT_FALSE(has_splits(dir.path().string()));
    EXPECT_EQ(describe_fields(dataset->fields()), "boxes float32 (-1, 4), labels int64 (-1)");
    EXPECT_EQ(dataset->fields()[0].kind, FieldKind::boxes);
    EXPECT_EQ(dataset->fields()[1].kind, FieldKind::label);
    EXPECT_THAT(dataset->classes(), ElementsAre("person", "toothbrush"));
    ASSERT_EQ(dataset->size(), 3);
    EXPECT_EQ(dataset->key(0), "a.jpg");
    EXPECT_EQ(dataset->key(2), "sub/\xc3\xa9.jpg");
    Sample sample;
    dataset->read(1, sample);
    EXPECT_EQ(as_text(sample.bytes), "image b");
    EXPECT_EQ(sample.label, -1);
    EXPECT_THAT(numbers_of<float>(sample.fields[0]), ElementsAre(1, 2, 11.5F, 22, 5, 5, 5, 8));
    EXPECT_THAT(numbers_of<std::int64_t>(sample.fields[1]), ElementsAre(1, 0));
    dataset->read(2, sample);
    EXPECT_THAT(numbers_of<float>(sample.fields[0]), IsEmpty());
    EXPECT_THAT(numbers_of<std::int64_t>(sample.fields[1]), IsEmpty());
    fs::remove(dir / "train2017/a.jpg");
    EXPECT_THROW(dataset->read(0, sample), DataError);
}

TEST(Coco, FieldsThatAreAskedFor) {
    const TempDir dir;
    put(dir / "x.json", kJson);
    put(dir / "a.jpg");
    const CocoDataset dataset(
        (dir / "x.json").string(), Split::train,
        {.image = {}, .label = {}, .more = {{.name = "iscrowd"}, {.name = "bbox", .from = "boxes"}}});
    EXPECT_EQ(describe_fields(dataset.fields()), "iscrowd uint8 (-1), bbox float32 (-1, 4)");
    Sample sample;
    dataset.read(0, sample);
    EXPECT_THAT(numbers_of<std::uint8_t>(sample.fields[0]), ElementsAre(1));
    EXPECT_THAT(numbers_of<float>(sample.fields[1]), ElementsAre(0.25F, 0, 1.25F, 2));
    EXPECT_THROW(CocoDataset((dir / "x.json").string(), Split::train,
                             {.image = {}, .label = {}, .more = {{.name = "segmentation"}}}),
                 DataError);
    EXPECT_THROW(CocoDataset((dir / "x.json").string(), Split::train,
                             {.image = {}, .label = {}, .more = {{.name = "labels", .kind = FieldKind::boxes}}}),
                 Unsupported);
    EXPECT_THROW(CocoDataset((dir / "x.json").string(), Split::train,
                             {.image = {}, .label = {}, .more = {{.name = "boxes", .kind = FieldKind::value}}}),
                 Unsupported);
}

TEST(Coco, FoldersOfImagesAndSplits) {
    for (const char* folder : {"train2017", "images/train2017", "images", "."}) {
        const TempDir dir;
        put(dir / "annotations/instances_train2017.json", kJson);
        put(dir / folder / "b.jpg", "image b");  // the first image is missing
        Sample sample;
        open_dataset(dir.path().string(), Split::train)->read(1, sample);
        EXPECT_EQ(as_text(sample.bytes), "image b") << folder;
        open_dataset((dir / "annotations/instances_train2017.json").string(), Split::train)->read(1, sample);
    }
    const TempDir dir;
    put(dir / "annotations/instances_train2017.json", kJson);
    put(dir / "annotations/instances_val2017.json", replaced("\"b.jpg\"", "\"c.jpg\""));
    put(dir / "elsewhere/b.jpg", "image b");
    put(dir / "val2017/c.jpg");
    EXPECT_TRUE(has_splits(dir.path().string()));
    EXPECT_EQ(open_dataset(dir.path().string(), Split::test)->key(1), "c.jpg");
    try {
        open_dataset(dir.path().string(), Split::train);
        FAIL() << "opened without images";
    } catch (const DataError& error) {
        EXPECT_THAT(error.what(), HasSubstr("got no a.jpg; name their folder with data.fields.image"));
    }
    Sample sample;
    open_dataset(dir.path().string(), Split::train, {.fields = {.image = "elsewhere", .label = {}}})->read(1, sample);
    EXPECT_EQ(as_text(sample.bytes), "image b");
    put(dir / "annotations/instances_train2014.json", kJson);
    EXPECT_THROW(open_dataset(dir.path().string(), Split::train), DataError);
}

TEST(Coco, RefusedFiles) {
    ASSERT_EQ(error_of(kJson), "read");
    EXPECT_THAT(error_of(""), HasSubstr("expected a JSON object, got the end of the file"));
    EXPECT_THAT(error_of("[1]"), HasSubstr("expected a JSON object, got \"[\""));
    EXPECT_THAT(error_of("{}"),
                HasSubstr("the arrays images, annotations and categories, got 0 images and 0 categories"));
    EXPECT_THAT(error_of(replaced("\"image_id\": 3", "\"image_id\": 4")),
                HasSubstr("the image_id of an annotation to be one that the file has, got 4"));
    EXPECT_THAT(error_of(replaced("\"category_id\": 90", "\"category_id\": 9")),
                HasSubstr("the category_id of an annotation to be one that the file has, got 9"));
    EXPECT_THAT(error_of(replaced("\"id\": 9,", "\"id\": 7,")), HasSubstr("unique ids of images, got 7 twice"));
    EXPECT_THAT(error_of(replaced("\"id\": 1, \"name\"", "\"id\": 90, \"name\"")),
                HasSubstr("unique ids of categories, got 90 twice"));
    EXPECT_THAT(error_of(replaced("10.5, 20]", "10.5]")), HasSubstr("no such bbox"));
    EXPECT_THAT(error_of(replaced("10.5, 20]", "10.5, 20, 1]")), HasSubstr("no such bbox"));
    EXPECT_THAT(error_of(replaced("10.5, 20]", "10.5, -20]")), HasSubstr("no such bbox"));
    EXPECT_THAT(error_of(replaced("10.5, 20]", "10.5, 1e300]")), HasSubstr("no such bbox"));
    EXPECT_THAT(error_of(replaced("10.5, 20]", "10.5, \"20\"]")), HasSubstr("\"bbox\" in annotations as COCO has it"));
    EXPECT_THAT(error_of(replaced("\"image_id\": 7, \"bbox\"", "\"bbox\"")), HasSubstr("no image_id"));
    EXPECT_THAT(error_of(replaced("\"a.jpg\"", "\"../a.jpg\"")),
                HasSubstr("an image with an id and a file_name within its folder"));
    EXPECT_THAT(error_of(replaced("\"file_name\": \"a.jpg\"", "\"x\": 1")), HasSubstr("a file_name within"));
    EXPECT_THAT(error_of(replaced("\"person\"", "\"\"")), HasSubstr("a category with an id and a name, got no name"));
    EXPECT_THAT(error_of(replaced("\"id\": 7, \"height\"", "\"id\": \"7\", \"height\"")),
                HasSubstr("\"id\" in images as COCO has it"));
    for (std::size_t size = 0; size + 2 < kJson.size(); ++size) {
        EXPECT_NE(error_of(kJson.substr(0, size)), "read") << size;
    }
    EXPECT_THAT(error_of(std::string(kJson) + "}"), HasSubstr("expected the end of the file"));
}

TEST(JsonElements, AreCutOutsideOfStrings) {
    std::vector<std::string> found;
    const auto cut = [&](std::string_view text) {
        found.clear();
        each_json_element(text, [&](const JsonElement& element) {
            EXPECT_EQ(text.substr(element.offset, element.text.size()), element.text);
            found.push_back(fmt::format("{}={}", element.key, element.text));
        });
    };
    cut(R"({"a": [1, "x,]\"", {"b": [2, 3]} , []], "c": {"d": [4]}, "e": "f", "g": [], "h": [{"}": "{"}]} )");
    EXPECT_THAT(found, ElementsAre("a=1", R"(a="x,]\"")", R"(a={"b": [2, 3]})", "a=[]", R"(h={"}": "{"})"));
    for (const char* text :
         {"{", "{\"a\"", "{\"a\":", "{\"a\":}", "{\"a\":1", "{\"a\":[", "{\"a\":[1", "{\"a\":[1,", "{\"a\":[,]}",
          "{\"a\":[1,]}", "{\"a\":[1}]}", "{\"a\":\"", "{\"a\":\"\\", "{\"a\":[{]}", "{a:1}", "{\"a\":1,}", "{}x"}) {
        EXPECT_THROW(cut(text), DataError) << text;
    }
}

}  // namespace
}  // namespace stoker
