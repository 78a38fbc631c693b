// Rows of small files that pyarrow wrote, which are also the fuzzer's corpus: three BMPs of 2 x 2 pixels each.
#include "stoker/formats/arrow/parquet_rows.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>

#include "stoker/base/error.h"
#include "stoker/formats/arrow/arrow_batches.h"
#include "support/paths.h"

namespace stoker {
namespace {

std::string corpus(const std::string& name) {
    return (testing::source_dir() / "fuzz/corpus/parquet" / name).string();
}

std::unique_ptr<ArrowRows> open(const std::string& name) {
    const std::string path = corpus(name);
    if (name.ends_with("_arrow")) {
        return std::make_unique<ArrowBatches>(path, std::vector{path});
    }
    return std::make_unique<ParquetRows>(path, std::vector{path},
                                         [](const std::string& file) { return open_byte_file(file); });
}

class Rows : public ::testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        try {
            rows_ = open(GetParam());
        } catch (const IoError& error) {
            GTEST_SKIP() << error.what();  // a build without pyarrow
        }
    }

    std::unique_ptr<ArrowRows> rows_;
};

TEST_P(Rows, HoldTheSameImagesAndLabels) {
    const ArrowSource* image = rows_->add({"image", "bytes"});
    const ArrowSource* label = rows_->add({"label"});
    Buffer storage;
    for (std::int64_t row = 0; row < rows_->size(); ++row) {
        const auto bytes = rows_->bytes(image, row, storage);
        ASSERT_TRUE(bytes);
        EXPECT_EQ(std::to_integer<char>((*bytes)[0]), 'B');
        EXPECT_EQ(std::to_integer<int>((*bytes)[54 + 2]), row);  // red of the first pixel
        Buffer number;
        EXPECT_EQ(integer_at(rows_->value(label, row).cell.numbers(number), 0), row % 2);
    }
}

TEST_P(Rows, ColumnsThatAreMissingAreErrors) {
    EXPECT_THROW(rows_->add({"picture"}), DataError);
    EXPECT_THROW(rows_->add({"image", "pixels"}), DataError);
}

TEST_P(Rows, PartsAddUpToAllRows) {
    const ArrowSource* const used[] = {rows_->add({"image", "bytes"})};
    const auto parts = rows_->parts(used);
    EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), std::int64_t{0}), parts.empty() ? 0 : rows_->size());
    const bool in_place = std::string(GetParam()) == "plain_parquet" || std::string(GetParam()).ends_with("_arrow");
    EXPECT_EQ(parts.empty(), in_place);
}

INSTANTIATE_TEST_SUITE_P(Files, Rows,
                         ::testing::Values("plain_parquet", "dictionary_parquet", "pages_parquet", "lists_parquet",
                                           "stream_arrow", "file_arrow", "lz4_arrow"));

}  // namespace
}  // namespace stoker
