// Every sample has a prediction row, also where it cannot be read.
#include "stoker/train/run/predict.h"

#include <gtest/gtest.h>

#include "stoker/base/error.h"
#include "train/support.h"

namespace stoker {
namespace {

// Neither sample `bad` nor its key can be read.
class Damaged final : public Dataset {
  public:
    explicit Damaged(std::int64_t bad) : bad_(bad) {}
    std::int64_t size() const override { return whole_.size(); }
    void read(std::int64_t index, Sample& sample) const override {
        check(index);
        whole_.read(index, sample);
    }
    std::string key(std::int64_t index) const override {
        check(index);
        return "key " + std::to_string(index);
    }

  private:
    void check(std::int64_t index) const {
        if (index == bad_) {
            throw DataError({}, {.where = "source", .expected = "pixels", .got = "rubbish"});
        }
    }

    testing::SquareDataset whole_ = testing::SquareDataset(5);
    std::int64_t bad_;
};

TEST(Predict, ASampleWithoutAKeyHasItsRow) {
    Loader loader(std::make_shared<Damaged>(3), Transform(), {.batch_size = 2, .shuffle = false, .bad_samples = 5});
    testing::LinearModel model;
    std::vector<Prediction> rows;
    predict(model, loader, at::kCPU,
            [&](const std::vector<Prediction>& batch) { rows.insert(rows.end(), batch.begin(), batch.end()); });
    ASSERT_EQ(rows.size(), 5);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(rows[i].key, i == 3 ? "3" : "key " + std::to_string(i));
        EXPECT_EQ(rows[i].error, i == 3 ? "expected pixels, got rubbish" : "");
        EXPECT_EQ(rows[i].values.size(), i == 3 ? 0 : 4);
    }
}

}  // namespace
}  // namespace stoker
