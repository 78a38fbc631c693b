// data.decode_on: runs are those of the ordinary loader, to the last bit, also stopped and resumed; and what a device
// cannot decode is refused, or left to the CPU. Here the device is the CPU (ImagesOnCpu).
#include "stoker/train/run/image_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/record_dataset.h"
#include "stoker/base/error.h"
#include "stoker/bridge/device_images.h"
#include "stoker/train/run/run_setup.h"
#include "train/support.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::RecordDataset;
using testing::RecordsWithFields;
using testing::TempDir;

template <typename Records>
class OfClasses final : public Dataset {
  public:
    explicit OfClasses(std::int64_t size) : records(size) {}
    std::int64_t size() const override { return records.size(); }
    std::span<const Field> fields() const override { return records.fields(); }
    void read(std::int64_t index, Sample& sample) const override {
        records.read(index, sample);
        sample.label %= 4;
    }
    std::span<const std::string> classes() const override { return classes_; }
    std::string key(std::int64_t index) const override { return records.key(index); }

    Records records;

  private:
    std::vector<std::string> classes_ = {"a", "b", "c", "d"};
};
using RecordClasses = OfClasses<RecordDataset>;

RecipeData record_data() {
    return {std::make_shared<RecordClasses>(50), std::make_shared<RecordClasses>(20)};
}

Recipe decoding_recipe() {
    Recipe recipe = testing::every(2, /*epochs=*/false);
    recipe.data.train_ops = {{.name = "random_resized_crop", .options = {{"size", 16.0}}, .where = "test"},
                             {.name = "horizontal_flip", .options = {}, .where = "test"},
                             {.name = "normalize", .options = {{"preset", "imagenet"}}, .where = "test"}};
    recipe.data.val_ops = {{.name = "resize", .options = {{"size", 20.0}}, .where = "test"},
                           {.name = "center_crop", .options = {{"size", 16.0}}, .where = "test"},
                           {.name = "normalize", .options = {{"preset", "imagenet"}}, .where = "test"}};
    recipe.data.decode_on = "device";
    return recipe;
}

struct DecodedRun {
    TrainResult result;
    std::vector<NamedTensor> weights;
};

DecodedRun decoded_run(const Recipe& recipe, const std::filesystem::path& out, std::int64_t stop_at = -1,
                       const RecipeData& data = record_data()) {
    Trainer trainer(recipe, data);
    std::atomic<int> interrupt = 0;
    std::int64_t steps = 0;
    FitOptions options{.out = out, .resume = "auto", .interrupt = &interrupt};
    options.on_step = [&](const Progress&) { interrupt = ++steps == stop_at ? 15 : 0; };
    TrainResult result = trainer.fit(options);
    return {std::move(result), testing::weights_of(trainer)};
}

std::string decode_refusal(const Recipe& recipe, const RecipeData& data) {
    try {
        make_train_loader(recipe, data, at::kCPU, false);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(DeviceDecodeRun, IsThatOfTheOrdinaryLoader) {
    const ImagesOnCpu allowed;
    const TempDir folder;
    Recipe plain = decoding_recipe();
    plain.data.decode_on = "cpu";
    const DecodedRun expected = decoded_run(plain, folder / "plain");
    const DecodedRun own = decoded_run(decoding_recipe(), folder / "own");
    EXPECT_EQ(testing::figures(own.result.epochs), testing::figures(expected.result.epochs));
    EXPECT_TRUE(testing::same_weights(own.weights, expected.weights));
    EXPECT_EQ(testing::metrics_of(folder / "own"), testing::metrics_of(folder / "plain"));
    decoded_run(decoding_recipe(), folder / "stopped", 3);
    const DecodedRun resumed = decoded_run(decoding_recipe(), folder / "stopped");
    EXPECT_TRUE(testing::same_weights(resumed.weights, expected.weights));
}

TEST(DeviceDecodeRun, IsTheSameWhereBothDecode) {
    const ImagesOnCpu allowed;
    const TempDir folder;
    Recipe recipe = decoding_recipe();
    recipe.data.decode_on = "cpu";
    const DecodedRun expected = decoded_run(recipe, folder / "plain");
    EXPECT_THAT(testing::text_of(folder / "plain/metrics.jsonl"), Not(HasSubstr("\"on_device\"")));
    recipe.data.decode_on = "auto";
    const DecodedRun own = decoded_run(recipe, folder / "own");
    EXPECT_EQ(testing::figures(own.result.epochs), testing::figures(expected.result.epochs));
    EXPECT_TRUE(testing::same_weights(own.weights, expected.weights));
    EXPECT_EQ(testing::metrics_of(folder / "own"), testing::metrics_of(folder / "plain"));
    EXPECT_THAT(testing::text_of(folder / "own/metrics.jsonl"), HasSubstr("\"on_device\"")) << "some were cut";
}

// The loader's text on where it decodes.
std::string where_decoded(const Recipe& recipe, const RecipeData& data) {
    return decodes_on(*make_train_loader(recipe, data, at::kCPU, false));
}

TEST(DeviceDecodeRun, IsSharedWhereADeviceCanDecode) {
    Recipe recipe = decoding_recipe();
    recipe.data.decode_on = "auto";
    EXPECT_EQ(where_decoded(recipe, record_data()), "cpu") << "no device";
    const ImagesOnCpu allowed;
    EXPECT_EQ(where_decoded(recipe, record_data()), "auto");
    EXPECT_EQ(where_decoded(decoding_recipe(), record_data()), "device");
    auto jpegs = std::make_shared<RecordClasses>(10);
    jpegs->records.records = jpegs->records.jpegs;
    EXPECT_EQ(where_decoded(recipe, {.train = jpegs, .val = nullptr}), "cpu");
    Recipe cached = recipe;
    cached.data.cache = "ram";
    EXPECT_EQ(where_decoded(cached, record_data()), "cpu") << "pixels are kept";
    cached.data.cache_as = "encoded";
    EXPECT_EQ(where_decoded(cached, record_data()), "auto");
    recipe.data.train_ops.insert(recipe.data.train_ops.begin() + 1,
                                 {.name = "gaussian_blur", .options = {{"kernel_size", 3.0}}, .where = "test"});
    EXPECT_EQ(where_decoded(recipe, record_data()), "cpu");
    recipe.data.decode_on = "cpu";
    EXPECT_EQ(where_decoded(recipe, record_data()), "cpu");
}

// One mask is bad, which shows when the sample's images are ready.
TEST(DeviceDecodeRun, HasViewsAndFurtherFields) {
    const ImagesOnCpu allowed;
    const TempDir folder;
    const auto train = std::make_shared<OfClasses<RecordsWithFields>>(50);
    train->records.damaged = {21};
    Recipe recipe = decoding_recipe();
    recipe.data.views = 2;
    recipe.data.bad_samples = {.count = 5};
    const DecodedRun own = decoded_run(recipe, folder / "own", -1, {train, nullptr});
    recipe.data.decode_on = "cpu";
    const DecodedRun expected = decoded_run(recipe, folder / "plain", -1, {train, nullptr});
    EXPECT_EQ(testing::figures(own.result.epochs), testing::figures(expected.result.epochs));
    EXPECT_TRUE(testing::same_weights(own.weights, expected.weights));
    EXPECT_EQ(testing::metrics_of(folder / "own"), testing::metrics_of(folder / "plain"));
    EXPECT_EQ(testing::text_of(folder / "own/quarantine.jsonl"), testing::text_of(folder / "plain/quarantine.jsonl"));
    EXPECT_THAT(testing::text_of(folder / "own/quarantine.jsonl"), HasSubstr("records/021"));
}

TEST(DeviceDecodeRun, IsRefusedWhereADeviceCannotDecode) {
    EXPECT_THAT(decode_refusal(decoding_recipe(), record_data()), HasSubstr("this run is on cpu"));
    const ImagesOnCpu allowed;
    EXPECT_EQ(decode_refusal(decoding_recipe(), record_data()), "");
    auto jpegs = std::make_shared<RecordClasses>(10);
    jpegs->records.records = jpegs->records.jpegs;
    EXPECT_THAT(decode_refusal(decoding_recipe(), {.train = jpegs, .val = nullptr}),
                HasSubstr("stoker pack --codec dct"));
    Recipe recipe = decoding_recipe();
    recipe.data.train_ops.insert(recipe.data.train_ops.begin() + 1,
                                 {.name = "gaussian_blur", .options = {{"kernel_size", 3.0}}, .where = "test"});
    EXPECT_THAT(decode_refusal(recipe, record_data()), HasSubstr("gaussian_blur changes pixels"));
}

}  // namespace
}  // namespace stoker
