// A table's classes and fields, the lines of bad samples, and the tables that are refused.
#include "stoker/formats/table/table_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/field_value_support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/concat.h"
#include "stoker/formats/open.h"
#include "stoker/formats/subset.h"
#include "support/temp_dir.h"

namespace stoker::table_dataset_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::numbers_of;
using testing::TempDir;
using ::testing::ThrowsMessage;

void put(const fs::path& path, std::string_view content = "x") {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
}

std::vector<std::int64_t> labels_of(const Dataset& dataset) {
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        labels.push_back(dataset.label(i).value());
    }
    return labels;
}

// The error of opening a table of this content.
std::string error_of(std::string_view content, const FieldNames& fields = {}) {
    const TempDir dir;
    put(dir / "labels.csv", content);
    try {
        const TableDataset dataset(dir.path().string(), fields);
    } catch (const Error& error) {
        return error.what();
    }
    return "opened";
}

// The error of reading a sample.
std::string read_error(const Dataset& dataset, std::int64_t index) {
    Sample sample;
    try {
        dataset.read(index, sample);
    } catch (const DataError& error) {
        return error.what();
    }
    return "read";
}

TEST(TableDataset, AnImageInTheHeaderIsARow) {
    const TempDir dir;
    put(dir / "img/a.png");
    put(dir / "img/b.png");
    const auto opened = [&](std::string_view content) {
        put(dir / "labels.csv", content);
        try {
            return fmt::format("{}", TableDataset(dir.path().string()).size());
        } catch (const DataError& error) {
            return std::string(error.what());
        }
    };
    EXPECT_THAT(opened("img/a.png,cat\nimg/b.png,dog\n"),
                AllOf(HasSubstr("labels.csv:1] expected a header with the names of the columns, got \"img/a.png\""),
                      HasSubstr("add a first line such as path,label")));
    EXPECT_EQ(opened("img/c.png,cat\nimg/b.png,dog\n"), "1") << "no file of that name";
    EXPECT_EQ(opened("path,label\nimg/a.png,cat\nimg/b.png,dog\n"), "2");
}

TEST(TableDataset, PathsOfAnotherFolderGetAHint) {
    const TempDir dir;
    put(dir / "labels.csv", "path,label\ndata/img/a.png,cat\n,dog\n");
    put(dir / "img/a.png");
    const TableDataset dataset(dir.path().string());
    EXPECT_THAT(read_error(dataset, 0), HasSubstr("; paths are relative to " + (dir.path() / "").string()));
    EXPECT_THAT(read_error(dataset, 1), Not(HasSubstr("relative")));
}

TEST(TableDataset, ATableThatIsNoFile) {
    const TempDir dir;
    put(dir / "img/a.png", "content");
    put(dir / "classes.txt", "cat\ndog\n");
    const std::string folder = dir.path().string();
    const TableDataset dataset({.folder = folder, .csv = "path,label\nimg/a.png,1\nimg/c.png,0\n"});
    EXPECT_EQ(dataset.path(), folder);
    EXPECT_THAT(labels_of(dataset), ElementsAre(1, 0));
    EXPECT_THAT(dataset.classes(), ElementsAre("cat", "dog")) << "the file next to the images";
    Sample sample;
    dataset.read(0, sample);
    EXPECT_EQ(sample.bytes.size(), 7u);
    EXPECT_THAT(read_error(dataset, 1), AllOf(HasSubstr(folder), HasSubstr("line 3 of the table")));
}

TEST(TableDataset, AShareOfUnreadableSamplesNamesTheFirst) {
    const TempDir dir;
    put(dir / "labels.csv", "colour,path\nred,a.png\nred,b.png\n");
    put(dir / "a.png");
    put(dir / "b.png");
    const auto wrong = std::make_shared<TableDataset>(dir.path().string(), FieldNames{.image = "colour", .label = ""});
    EXPECT_THAT(
        [&] { split_by_key(wrong, 0.2); },
        ThrowsMessage<DataError>(AllOf(HasSubstr("labels.csv: red (sample 0)"), HasSubstr("no file of that name"))));
    const auto same =
        std::make_shared<Subset>(std::make_shared<TableDataset>(dir.path().string()), std::vector<std::int64_t>{0, 0});
    EXPECT_THAT([&] { split_by_key(same, 0.2); }, ThrowsMessage<InvalidArgument>(HasSubstr("leave one side empty")));
}

TEST(TableDataset, ClassesByName) {
    const TempDir dir;
    put(dir / "labels.csv", "path,label\nb/2.png,dog\na.png,cat\n\"c, d.png\",\"big \"\"cat\"\"\"\nb/2.png,cat\n");
    put(dir / "b/2.png", "two");
    put(dir / "a.png", "one");
    put(dir / "c, d.png", "three");
    for (const std::string& data : {dir.path().string(), (dir / "labels.csv").string()}) {
        const auto dataset = open_dataset(data, Split::train);
        EXPECT_EQ(dataset->format(), "table");
        EXPECT_FALSE(has_splits(data));
        ASSERT_EQ(dataset->size(), 4);
        EXPECT_THAT(dataset->classes(), ElementsAre("big \"cat\"", "cat", "dog"));
        EXPECT_THAT(labels_of(*dataset), ElementsAre(2, 1, 0, 1));
        EXPECT_EQ(dataset->key(2), "c, d.png");
        EXPECT_EQ(dataset->bytes(), 3 + 3 + 5 + 3);
        EXPECT_THAT(dataset->fields(), IsEmpty());
        Sample sample;
        dataset->read(2, sample);
        EXPECT_EQ(as_text(sample.bytes), "three");
        EXPECT_TRUE(sample.encoded);
        EXPECT_EQ(sample.label, 0);
    }
}

TEST(TableDataset, ClassesByNumber) {
    const TempDir dir;
    put(dir / "t.csv", "file,Class\r\n1.png,3\r\n2.png, 0\r\n3.png,-1\r\n4.png,1.0\r\n");
    const TableDataset dataset((dir / "t.csv").string());
    EXPECT_THAT(labels_of(dataset), ElementsAre(3, 0, -1, 1));
    EXPECT_THAT(dataset.classes(), ElementsAre("0", "1", "2", "3"));
}

TEST(TableDataset, AFileNamesTheNumbers) {
    const TempDir dir;
    put(dir / "labels.csv", "path,label\n1.png,1\n2.png,0\n");
    put(dir / "classes.txt", "zebra\nape\nbee\n");
    const TableDataset dataset(dir.path().string());
    EXPECT_THAT(dataset.classes(), ElementsAre("zebra", "ape", "bee"));
    EXPECT_THAT(labels_of(dataset), ElementsAre(1, 0));
    put(dir / "classes.txt", "zebra\n");
    EXPECT_THROW(TableDataset(dir.path().string()), DataError);
    put(dir / "labels.csv", "path,label\n1.png,cat\n2.png,dog\n");  // names the classes itself
    EXPECT_THAT(TableDataset(dir.path().string()).classes(), ElementsAre("cat", "dog"));
}

TEST(TableDataset, TheColumnOfPathsAndThatOfClasses) {
    const TempDir dir;
    // pandas writes the row's number first, without a name.
    put(dir / "labels.csv", ",label,filename,image\n0,a,x.png,y.png\n1,b,z.png,w.png\n");
    EXPECT_EQ(TableDataset(dir.path().string()).key(1), "w.png");
    EXPECT_EQ(TableDataset(dir.path().string(), {.image = "filename", .label = {}}).key(1), "z.png");
    put(dir / "labels.csv", ",picture,kind\n0,x.png,b\n1,z.png,a\n");
    EXPECT_EQ(TableDataset(dir.path().string()).key(1), "z.png");
    EXPECT_THAT(TableDataset(dir.path().string()).classes(), IsEmpty());
    EXPECT_THAT(labels_of(TableDataset(dir.path().string())), ElementsAre(-1, -1));
    EXPECT_THAT(labels_of(TableDataset(dir.path().string(), {.image = {}, .label = "kind"})), ElementsAre(1, 0));
}

TEST(TableDataset, AColumnOfClassesIsNoColumnOfPaths) {
    const TempDir dir;
    put(dir / "img/7.png");
    put(dir / "img/8.png");
    for (const char* table : {"label,id\n1,7\n0,8\n", "Target,id\n1,7\n0,8\n"}) {
        put(dir / "labels.csv", table);
        const TableDataset dataset(dir.path().string());
        EXPECT_EQ(dataset.key(0), "img/7.png");
        EXPECT_THAT(labels_of(dataset), ElementsAre(1, 0));
    }
    put(dir / "labels.csv", "breed,id\n1,7\n0,8\n");
    EXPECT_THAT(labels_of(TableDataset(dir.path().string(), {.image = "", .label = "breed"})), ElementsAre(1, 0));
}

TEST(TableDataset, FurtherFields) {
    const TempDir dir;
    put(dir / "labels.csv",
        "path,target,a,b,c,colour,x1,y1,x2,y2,second\n"
        "1.png,0.5,1,0,True,red,1,2,3.5,4,m/1.png\n"
        "2.png,-1e3,0,1,false,blue,5,6,7,8,m/2.png\n");
    put(dir / "1.png");
    put(dir / "2.png");
    put(dir / "m/1.png", "first");
    put(dir / "m/2.png", "second");
    const TableDataset dataset(dir.path().string(),
                               {.image = {},
                                .label = {},
                                .more = {{.name = "target"},
                                         {.name = "flags", .from = "a, b,c", .kind = FieldKind::label},
                                         {.name = "marks", .from = "a,x2", .kind = FieldKind::value},
                                         {.name = "colour", .kind = FieldKind::label},
                                         {.name = "box", .from = "x1,y1,x2,y2", .kind = FieldKind::boxes},
                                         {.name = "mask", .from = "second", .kind = FieldKind::mask}}});
    EXPECT_EQ(describe_fields(dataset.fields()),
              "target float32 (), flags int64 (3), marks float32 (2), colour int64 (), box float32 (1, 4), mask mask");
    EXPECT_THAT(dataset.classes(), IsEmpty());  // `target` is a field, so it is not the class
    EXPECT_EQ(describe_fields(dataset.stored_fields()),
              "target float32 (), a float32 (), b float32 (), c float32 (), colour int64 (), x1 float32 (), "
              "y1 float32 (), x2 float32 (), y2 float32 (), second image");
    Sample sample;
    dataset.read(1, sample);
    EXPECT_EQ(sample.label, -1);
    EXPECT_THAT(numbers_of<float>(sample.fields[0]), ElementsAre(-1000.0F));
    EXPECT_THAT(numbers_of<std::int64_t>(sample.fields[1]), ElementsAre(0, 1, 0));
    EXPECT_THAT(numbers_of<float>(sample.fields[2]), ElementsAre(0.0F, 7.0F));
    EXPECT_THAT(numbers_of<std::int64_t>(sample.fields[3]), ElementsAre(0));  // blue comes before red
    EXPECT_THAT(numbers_of<float>(sample.fields[4]), ElementsAre(5.0F, 6.0F, 7.0F, 8.0F));
    EXPECT_EQ(as_text(sample.fields[5].bytes), "second");
    EXPECT_TRUE(sample.fields[5].encoded);
    dataset.read(0, sample);
    EXPECT_THAT(numbers_of<std::int64_t>(sample.fields[1]), ElementsAre(1, 0, 1));
    EXPECT_EQ(as_text(sample.fields[5].bytes), "first");
}

TEST(TableDataset, BadSamplesNameFileAndLine) {
    const TempDir dir;
    put(dir / "labels.csv",
        "path,label,age,mask\n"
        "\"1\n.png\",cat,3,m.png\n"
        "gone.png,cat,3,m.png\n"
        "2.png,,3,m.png\n"
        "2.png,dog,,m.png\n"
        "2.png,dog,NaN,m.png\n"
        "2.png,dog,4,gone.png\n"
        ",dog,4,m.png\n"
        "2.png,dog,4,m.png\n");
    put(dir / "1\n.png");
    put(dir / "2.png");
    put(dir / "m.png");
    const TableDataset dataset(
        dir.path().string(),
        {.image = {}, .label = {}, .more = {{.name = "age"}, {.name = "mask", .kind = FieldKind::mask}}});
    EXPECT_EQ(read_error(dataset, 0), "read");
    EXPECT_EQ(read_error(dataset, 7), "read");
    EXPECT_THAT(
        read_error(dataset, 1),
        AllOf(HasSubstr("labels.csv: gone.png] expected a readable file for the image, got no file of that name, "
                        "line 4 of the table"),
              Not(HasSubstr("\n"))));
    EXPECT_EQ(read_error(dataset, 2), "read");  // no label, which only some tasks need
    EXPECT_EQ(dataset.label(2), -1);
    EXPECT_THAT(read_error(dataset, 3), HasSubstr("expected a number for age, got an empty cell, line 6 of the table"));
    EXPECT_THAT(read_error(dataset, 4), HasSubstr("expected a number for age, got an empty cell, line 7"));
    EXPECT_THAT(read_error(dataset, 5), HasSubstr("labels.csv: gone.png] expected a readable file for mask"));
    EXPECT_THAT(read_error(dataset, 6),
                HasSubstr("labels.csv] expected a name for the image, got none, line 9 of the table"));
    EXPECT_THROW(dataset.key(8), InvalidArgument);
}

TEST(TableDataset, RefusesPathsThatLeaveTheFolder) {
    for (const char* path : {"../a.png", "/etc/passwd", "a/../../b.png", "..", "a/.."}) {
        EXPECT_THAT(error_of(fmt::format("path,label\nok.png,1\n{},2\n", path)),
                    HasSubstr("labels.csv:3] expected a path within the table's folder for the image, got"))
            << path;
        EXPECT_THAT(error_of(fmt::format("path,mask\nok.png,{}\n", path),
                             {.image = {}, .label = {}, .more = {{.name = "mask", .kind = FieldKind::mask}}}),
                    HasSubstr("labels.csv:2] expected a path within"));
    }
    EXPECT_THAT(error_of(std::string("path\na\0b.png\n", 13)), HasSubstr("within the table's folder"));
    EXPECT_EQ(error_of("path\n..a/b..png\n"), "opened");
}

TEST(TableDataset, NamesOfAFurtherFieldAreKnown) {
    const TempDir dir;
    put(dir / "a/labels.csv", "path,colour,size\na.png,red,3\nb.png,blue,1\n");
    put(dir / "b/labels.csv", "path,colour,size\na.png,red,3\nb.png,green,1\n");
    const FieldNames names{
        .image = {},
        .label = {},
        .more = {{.name = "colour", .kind = FieldKind::label}, {.name = "size", .kind = FieldKind::label}}};
    const auto first = std::make_shared<TableDataset>((dir / "a").string(), names);
    EXPECT_THAT(first->fields()[0].classes, ElementsAre("blue", "red"));
    EXPECT_THAT(first->fields()[1].classes, IsEmpty());
    const auto second = std::make_shared<TableDataset>((dir / "b").string(), names);
    EXPECT_THAT(
        [&] {
            ConcatDataset({first, second});
        },
        ThrowsMessage<InvalidArgument>(HasSubstr("b/labels.csv: field colour] expected the names of")));
}

TEST(TableDataset, NoClassIsMadeOfBlanksOrOfNanAmongNumbers) {
    const TempDir dir;
    put(dir / "labels.csv", "path,label\na.png,2\nb.png,nan\nc.png, \nd.png,10\n");
    const TableDataset numbers(dir.path().string());
    EXPECT_EQ(labels_of(numbers), (std::vector<std::int64_t>{2, -1, -1, 10}));
    EXPECT_EQ(numbers.classes().size(), 11u);
    put(dir / "labels.csv", "path,label\na.png,naan\nb.png,nan\nc.png, \n");
    const TableDataset breads(dir.path().string());
    EXPECT_THAT(breads.classes(), ElementsAre("naan", "nan"));
    EXPECT_EQ(labels_of(breads), (std::vector<std::int64_t>{0, 1, -1}));
}

TEST(TableDataset, AbsolutePathsInTheFolder) {
    const TempDir dir;
    const fs::path real = fs::canonical(dir.path()) / "photos";
    const fs::path linked = dir / "linked";
    put(real / "labels.csv", fmt::format("path,label\n{}/a.png,1\nsub/b.png,2\n", real.string()));
    fs::create_directory_symlink(real, linked);
    EXPECT_EQ(TableDataset(real.string()).key(0), "a.png");
    EXPECT_EQ(TableDataset(real.string()).key(1), "sub/b.png");
    EXPECT_EQ(TableDataset(linked.string()).key(0), "a.png") << "the path without the link";
    put(real / "labels.csv", fmt::format("path\n{}/sub/b.png\n", linked.string()));
    EXPECT_EQ(TableDataset(linked.string()).key(0), "sub/b.png") << "the path as given";
    for (const char* outside : {"/../a.png", "-beside/a.png", "/"}) {
        put(real / "labels.csv", fmt::format("path\n{}{}\n", real.string(), outside));
        EXPECT_THROW(TableDataset(real.string()), DataError) << outside;
    }
}

TEST(TableDataset, RefusedTables) {
    const FieldNames age{.image = {}, .label = {}, .more = {{.name = "age"}}};
    EXPECT_THAT(error_of(""), HasSubstr("expected a header and a row for each image, got an empty file"));
    EXPECT_THAT(error_of("path,label\n"), HasSubstr("got the header alone"));
    EXPECT_THAT(error_of("path;label\na.png;1\n"), HasSubstr("labels.csv:1] expected columns separated by commas"));
    EXPECT_THAT(error_of("path,label\na.png,1\nb.png\n"),
                HasSubstr("labels.csv:3] expected 2 cells, as in the header, got 1"));
    EXPECT_THAT(error_of("path,label\na.png,1,\n"),
                HasSubstr("labels.csv:2] expected 2 cells, as in the header, got 3"));
    EXPECT_THAT(error_of("path,label\na.png,1\n", age),
                HasSubstr("expected one column named age, got columns path, label"));
    EXPECT_THAT(error_of("path,age,age\na.png,1,2\n", age),
                HasSubstr("one column named age, got 2 columns of this name"));
    EXPECT_THAT(error_of("path,age\na.png,1\nb.png,old\n", age),
                HasSubstr("labels.csv:3] expected a number for age, got \"old\""));
    EXPECT_THAT(error_of("path,age\na.png,1e39\n", age),
                HasSubstr("labels.csv:2] expected a number for age, got \"1e39\""));
    EXPECT_THAT(error_of("path,age\na.png,inf\n", age),
                HasSubstr("labels.csv:2] expected a number for age, got \"inf\""));
    EXPECT_THAT(error_of("path,label\na.png,0.5\nb.png,1\n"), HasSubstr("class indices as integers, got \"0.5\""));
    EXPECT_THAT(error_of("path,label\na.png,-2\n"),
                HasSubstr("class indices from 0 on, or -1 for no label, got \"-2\""));
    EXPECT_THAT(error_of("path,label\na.png,\xe9t\xe9\n"), HasSubstr("labels.csv:2] expected a class name in UTF-8"));
    EXPECT_THAT(error_of("path,\xe9\na.png,1\n"), HasSubstr("labels.csv:1] expected column names in UTF-8"));
    EXPECT_THAT(error_of("path,a,b\na.png,1,2.5\n",
                         {.image = {}, .label = {}, .more = {{.name = "ab", .from = "a,b", .kind = FieldKind::label}}}),
                HasSubstr("labels.csv:2] expected an integer for ab, got \"2.5\""));
    EXPECT_THAT(error_of("path,a,b\na.png,1,2\n",
                         {.image = {}, .label = {}, .more = {{.name = "m", .from = "a,b", .kind = FieldKind::mask}}}),
                HasSubstr("one column of paths"));
    EXPECT_THAT(
        error_of("path,a\na.png,1\n", {.image = {}, .label = {}, .more = {{.name = "a", .kind = FieldKind::tokens}}}),
        HasSubstr("of kind tokens"));
    EXPECT_THAT(error_of("path,a,b\na.png,1,2\n",
                         {.image = {}, .label = {}, .more = {{.name = "m", .from = "a,b", .kind = FieldKind::boxes}}}),
                HasSubstr("float32 (K, 4)"));
}

TEST(TableDataset, AMillionRows) {
    const TempDir dir;
    {
        std::ofstream file(dir / "labels.csv");
        file << "path,label,age\n";
        for (int i = 0; i < 1'000'000; ++i) {
            file << "train/class_" << i % 1000 << "/image_" << i << ".jpg,class_" << i % 1000 << ',' << i % 97
                 << ".5\n";
        }
    }
    const auto begin = std::chrono::steady_clock::now();
    const TableDataset dataset(dir.path().string(), {.image = {}, .label = {}, .more = {{.name = "age"}}});
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(dataset.size(), 1'000'000);
    EXPECT_EQ(dataset.classes().size(), 1000U);
    EXPECT_EQ(dataset.key(999'999), "train/class_999/image_999999.jpg");
    RecordProperty("seconds", std::to_string(taken.count()));
    EXPECT_LT(taken.count(), 30);  // about half a second; tests also run under sanitizers and on busy machines
}

}  // namespace
}  // namespace stoker::table_dataset_test
