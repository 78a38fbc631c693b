// Fields other than image and label: the same values for any number of workers and with each cache, values of any
// length, and samples whose values have a wrong length.
#include <gmock/gmock.h>

#include <array>

#include "pipeline/pixel_source.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using testing::PixelDataset;

// Sample i: an image, angle (scalar) = i / 2, box (2) = {i, -i}, words (any length) = i % 4 pairs of {i, k}.
class FieldDataset final : public Dataset {
  public:
    std::int64_t size() const override { return images_.size(); }
    std::span<const Field> fields() const override { return fields_; }
    void read(std::int64_t index, Sample& sample) const override {
        images_.read(index, sample);
        sample.field(0).copy_elements(std::vector<float>{static_cast<float>(index) / 2});
        sample.field(1).copy_elements(
            std::vector<std::int64_t>(static_cast<std::size_t>(index == damaged ? 3 : 2), index));
        std::vector<std::int32_t> words;
        for (std::int32_t k = 0; k < index % 4; ++k) {
            words.insert(words.end(), {static_cast<std::int32_t>(index), k});
        }
        sample.field(2).copy_elements(words);
    }

    std::int64_t damaged = -1;  // its second field is too long

  private:
    PixelDataset images_{40};
    std::vector<Field> fields_ = {{.name = "angle", .dtype = DType::float32},
                                  {.name = "box", .dtype = DType::int64, .shape = {2}},
                                  {.name = "words", .dtype = DType::int32, .shape = {-1, 2}}};
};

void expect_fields_of_indices(Batch& batch) {
    const auto indices = batch.field(kIndexField).as<std::int64_t>();
    const auto angles = batch.field("angle").as<float>();
    const TensorView boxes = batch.field("box");
    EXPECT_EQ(boxes.shape, (Shape{batch.size(), 2}));
    const RaggedView words = batch.ragged("words");
    ASSERT_EQ(words.offsets.size(), static_cast<std::size_t>(batch.size()) + 1);
    EXPECT_EQ(words.values.shape, (Shape{words.offsets.back(), 2}));
    for (std::size_t i = 0; i < indices.size(); ++i) {
        EXPECT_EQ(angles[i], static_cast<float>(indices[i]) / 2);
        EXPECT_EQ(boxes.as<std::int64_t>()[2 * i], indices[i]);
        EXPECT_EQ(boxes.as<std::int64_t>()[2 * i + 1], indices[i]);
        ASSERT_EQ(words.offsets[i + 1] - words.offsets[i], indices[i] % 4);
        for (std::int64_t k = 0; k < indices[i] % 4; ++k) {
            const auto at = static_cast<std::size_t>(2 * (words.offsets[i] + k));
            EXPECT_EQ(words.values.as<std::int32_t>()[at], indices[i]);
            EXPECT_EQ(words.values.as<std::int32_t>()[at + 1], k);
        }
    }
}

void expect_epochs(const LoaderOptions& options, int epochs) {
    Loader loader(std::make_shared<FieldDataset>(), testing::random_ops(), options);
    std::int64_t seen = 0;
    for (int epoch = 0; epoch < epochs; ++epoch) {
        while (const auto batch = loader.next()) {
            expect_fields_of_indices(*batch);
            seen += batch->size();
        }
    }
    EXPECT_EQ(seen, 40 * epochs);
}

TEST(LoaderFields, AnyNumberOfWorkers) {
    for (const int workers : {0, 1, 4}) {
        expect_epochs({.batch_size = 7, .workers = workers, .seed = 3}, 2);
    }
}

TEST(LoaderFields, EveryCacheKeepsThem) {
    const testing::TempDir folder;
    for (const bool encoded : {false, true}) {
        expect_epochs({.batch_size = 7, .images = PixelImages{.cache = {.bytes = 1 << 20}, .cache_encoded = encoded}},
                      3);
        expect_epochs(
            {.batch_size = 7,
             .images = PixelImages{.cache = {.bytes = 1 << 20, .directory = folder.path()}, .cache_encoded = encoded}},
            3);
    }
}

TEST(LoaderFields, AValueOfAWrongLengthIsABadSample) {
    const auto dataset = std::make_shared<FieldDataset>();
    dataset->damaged = 11;
    Loader loader(dataset, testing::random_ops(), {.batch_size = 40, .bad_samples = 1});
    const auto batch = loader.next();
    ASSERT_EQ(batch->bad_samples().size(), 1u);
    EXPECT_EQ(batch->bad_samples()[0].reason, "expected 16 bytes for box, got 24");
    expect_fields_of_indices(*batch);
}

// Integers have as many bytes as the floats that the field holds.
TEST(LoaderFields, AValueOfAnotherTypeIsABadSample) {
    struct Table final : Dataset {
        std::int64_t size() const override { return 2; }
        bool has_image() const override { return false; }
        void read(std::int64_t index, Sample& sample) const override {
            if (index == 1) {
                sample.field(0).copy_elements(std::vector<std::array<int, 2>>{{1, 2}, {3, 4}});
            } else {
                sample.field(0).copy_elements(std::vector<std::array<float, 2>>{{1, 2}, {3, 4}});
            }
            sample.field(1).copy_elements(std::array{std::uint64_t{7}});
            sample.field(2).copy_elements(std::array{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}});
        }
        std::span<const Field> fields() const override { return names; }
        std::vector<Field> names = {{.name = "table", .shape = {2, 2}},
                                    {.name = "id", .dtype = DType::int64},
                                    {.name = "raw", .dtype = DType::int32}};
    };
    Loader loader(std::make_shared<Table>(), Transform(), {.batch_size = 2, .shuffle = false, .bad_samples = 1});
    const auto batch = loader.next();
    ASSERT_EQ(batch->bad_samples().size(), 1u);
    EXPECT_EQ(batch->bad_samples()[0].index, 1);
    EXPECT_EQ(batch->bad_samples()[0].reason, "expected float32 for table, got int32");
    EXPECT_EQ(batch->field("table").as<float>()[3], 4);
}

TEST(LoaderFields, WithoutASubstituteTheyAreZero) {
    const auto dataset = std::make_shared<FieldDataset>();
    dataset->damaged = 11;
    Loader loader(dataset, testing::random_ops(),
                  {.batch_size = 40, .shuffle = false, .bad_samples = 1, .replace = false});
    for (int epoch = 0; epoch < 2; ++epoch) {  // the second time in a batch that was used before
        const auto batch = loader.next();
        EXPECT_EQ(batch->field("angle").as<float>()[11], 0);
        EXPECT_EQ(batch->field("box").as<std::int64_t>()[22], 0);
        const RaggedView words = batch->ragged("words");
        EXPECT_EQ(words.offsets[11], words.offsets[12]);
        EXPECT_EQ(loader.next(), nullptr);
    }
}

TEST(LoaderFields, NamesOfTheLoaderAreTaken) {
    struct Named final : Dataset {
        std::int64_t size() const override { return 1; }
        void read(std::int64_t index, Sample& sample) const override { images.read(index, sample); }
        std::span<const Field> fields() const override { return names; }
        PixelDataset images{1};
        std::vector<Field> names = {{.name = "label"}};
    };
    const auto dataset = std::make_shared<Named>();
    EXPECT_THROW(Loader(dataset, testing::random_ops(), {.batch_size = 1}), InvalidArgument);
    for (const Shape& shape : {Shape{-1, 0}, Shape{-1, -1}, Shape{2, -1}}) {
        dataset->names = {{.name = "points", .shape = shape}};
        EXPECT_THROW(Loader(dataset, testing::random_ops(), {.batch_size = 1}), InvalidArgument);
    }
}

}  // namespace
}  // namespace stoker
