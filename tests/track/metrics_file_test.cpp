// metrics.jsonl complete, truncated at every byte, and changed at random: all complete lines are read.
#include "stoker/track/metrics_file.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/track/main_metric.h"
#include "stoker/track/scalars.h"
#include "support/temp_dir.h"
#include "track/support.h"

namespace stoker {
namespace {

using testing::epoch_line;
using ::testing::HasSubstr;
using testing::metrics_text;
using testing::step_line;
using testing::TempDir;

class MetricsFileTest : public ::testing::Test {
  protected:
    Metrics read(const std::string& text, MetricLines lines = MetricLines::all) {
        write_file(path_, text);
        return read_metrics(path_, lines);
    }

    std::string refused(const std::string& text) {
        try {
            read(text);
        } catch (const DataError& error) {
            EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
            return error.what();
        }
        return "read";
    }

    TempDir dir_;
    std::filesystem::path path_ = dir_ / "metrics.jsonl";
};

TEST_F(MetricsFileTest, ShortRunsHaveAllStepsInTheirCurves) {
    const std::string text = metrics_text(2, 3);
    const Metrics all = read(text);
    const Metrics curves = read(text, MetricLines::curves);
    ASSERT_EQ(curves.steps.size(), all.steps.size());
    EXPECT_EQ(curves.steps.back().step, all.steps.back().step);
    EXPECT_EQ(curves.steps.back().loss, all.steps.back().loss);
    EXPECT_EQ(curves.epochs.size(), all.epochs.size());
    EXPECT_TRUE(curves.peaks.empty());
}

TEST_F(MetricsFileTest, ReadsStepsAndEpochs) {
    const Metrics metrics = read(metrics_text(2, 3));
    ASSERT_EQ(metrics.steps.size(), 6U);
    ASSERT_EQ(metrics.epochs.size(), 2U);
    const StepLine& step = metrics.steps[4];
    EXPECT_EQ(step.step, 5);
    EXPECT_EQ(step.epoch, 2);
    EXPECT_EQ(step.samples, 64);
    EXPECT_EQ(step.loss, 0.5);
    EXPECT_EQ(step.lr, 0.001);
    EXPECT_DOUBLE_EQ(step.seconds, 0.004);
    EXPECT_DOUBLE_EQ(step.wait_seconds, 0.001);
    const EpochResult& epoch = metrics.epochs[1];
    EXPECT_EQ(epoch.epoch, 2);
    EXPECT_EQ(epoch.step, 6);
    EXPECT_EQ(epoch.seconds, 2);
    EXPECT_EQ(epoch.images_per_second, 100);
    EXPECT_EQ(epoch.train_loss, 0.25);
    EXPECT_EQ(epoch.val_loss, 0.75);
    EXPECT_EQ(epoch.val_accuracy, 0.5);
    EXPECT_EQ(epoch.bad_samples, 1);
    EXPECT_EQ(epoch.val_bad_samples, 2);
    EXPECT_FALSE(metrics.truncated);
    EXPECT_EQ(metrics.last_step(), 6);
}

TEST_F(MetricsFileTest, NullIsNotANumberAndMissingIsMissing) {
    const std::string old =
        R"({"type":"step","schema":1,"step":1,"epoch":1,"samples":64,"lr":0.1,"batch_hash":"0","us":{}})";
    const Metrics metrics = read(old + "\n" + step_line(2, 1, "null") + epoch_line(1, 2, "null"));
    EXPECT_FALSE(metrics.steps[0].loss.has_value());
    EXPECT_TRUE(std::isnan(*metrics.steps[1].loss));
    EXPECT_TRUE(std::isnan(metrics.epochs[0].train_loss));
}

TEST_F(MetricsFileTest, MetricsOfOtherTasks) {
    std::string line = epoch_line(1, 2);
    EXPECT_EQ(main_metric(read(line).epochs[0])->name, "accuracy");
    line.replace(line.find(R"("val_accuracy":0.5)"), 18, R"("val_accuracy":null)");
    EXPECT_FALSE(main_metric(read(line).epochs[0]));
    line.insert(line.rfind('}'), R"(,"val_metrics":{"r2":null,"mae":0.5,"other":"text"})");
    line.insert(line.rfind('}'), R"(,"val_metric":"mae","higher_is_better":false)");
    const EpochResult epoch = read(line).epochs[0];
    ASSERT_EQ(epoch.val_metrics.size(), 2U);
    EXPECT_TRUE(std::isnan(epoch.val_metrics[1].value));
    EXPECT_EQ(scalars_of(epoch)[2].tag, "epoch/val_mae");
    const auto main = main_metric(epoch);
    ASSERT_TRUE(main);
    EXPECT_EQ(main->name, "mae");
    EXPECT_EQ(main->value, 0.5);
    EXPECT_FALSE(main->higher_is_better);
    line = epoch_line(1, 2);
    line.insert(line.rfind('}'), R"(,"val_metrics":[1, 2])");
    EXPECT_EQ(read(line).epochs[0].val_metrics.size(), 1U);  // the accuracy
}

TEST_F(MetricsFileTest, CutAtEveryByte) {
    const std::string text = metrics_text(2, 2);
    for (std::size_t size = 0; size <= text.size(); ++size) {
        const std::string piece = text.substr(0, size);
        // A line without only its newline is complete.
        const bool whole_end = size < text.size() && text[size] == '\n';
        const auto lines = std::count(piece.begin(), piece.end(), '\n') + (whole_end ? 1 : 0);
        const Metrics metrics = read(piece);
        ASSERT_EQ(static_cast<std::ptrdiff_t>(metrics.steps.size() + metrics.epochs.size()), lines) << size;
        ASSERT_EQ(metrics.truncated, !piece.empty() && piece.back() != '\n' && !whole_end) << size;
        const Metrics last = read(piece, MetricLines::last_step);
        ASSERT_EQ(last.last_step(), metrics.last_step()) << size;
        ASSERT_EQ(last.epochs.size(), metrics.epochs.size()) << size;
        ASSERT_LE(last.steps.size(), 1U) << size;
    }
}

TEST_F(MetricsFileTest, OfStepsToldTwiceTheLaterHolds) {
    const Metrics metrics = read(metrics_text(2, 3) + step_line(4, 2, "0.125") + step_line(5, 2));
    ASSERT_EQ(metrics.steps.size(), 5U);
    EXPECT_EQ(metrics.steps[3].loss, 0.125);
    EXPECT_EQ(metrics.steps[4].step, 5);
}

// As `python -m stoker watch` writes them.
TEST_F(MetricsFileTest, StepsOfAWatchedProgramHaveNoLearningRate) {
    const Metrics metrics =
        read("{\"type\":\"step\",\"schema\":1,\"rank\":0,\"step\":1,\"epoch\":1,\"us\":{\"wait\":1000}}\n");
    ASSERT_EQ(metrics.steps.size(), 1U);
    EXPECT_TRUE(std::isnan(metrics.steps[0].lr));
    EXPECT_EQ(metrics.steps[0].samples, 0);
    const std::vector<Scalar> scalars = scalars_of(metrics.steps[0]);
    ASSERT_EQ(scalars.size(), 1U);
    EXPECT_EQ(scalars[0].tag, "train/wait");
}

TEST_F(MetricsFileTest, CurvesOfLongRunsKnowTheLastStep) {
    std::string text;
    for (std::size_t step = 1; step <= 2 * kMostCurveSteps + 1; ++step) {
        text += step_line(static_cast<std::int64_t>(step), 1);
    }
    const Metrics metrics = read(text, MetricLines::curves);
    EXPECT_EQ(metrics.last_step(), static_cast<std::int64_t>(2 * kMostCurveSteps + 1));
}

TEST_F(MetricsFileTest, OtherFilesAreRefused) {
    EXPECT_THAT(refused("hello\n"), HasSubstr("got other text"));
    EXPECT_THAT(refused("hello"), HasSubstr("got other text"));
    EXPECT_THAT(refused("[]\n"), HasSubstr("got other text"));
    EXPECT_THAT(refused("{\"step\":1}\n"), HasSubstr("got other text"));
    EXPECT_THAT(refused(step_line(1, 1) + "\n"), HasSubstr("got other text"));
    EXPECT_THAT(refused("{\"type\":\"step\",\"schema\":2}\n"), HasSubstr("schema 2"));
    EXPECT_THAT(refused("{\"type\":\"step\",\"schema\":1,\"step\":-1}\n"), HasSubstr("values missing"));
    EXPECT_THAT(refused("{\"type\":\"step\",\"schema\":1,\"step\":1e300}\n"), HasSubstr("values missing"));
    EXPECT_THAT(refused(std::string(200'000, '{')), HasSubstr("more than"));
    EXPECT_THAT(refused(step_line(1, 1) + "x\n" + step_line(2, 1)), HasSubstr("@ byte"));
    EXPECT_THROW(read_metrics(dir_ / "none"), IoError);
    EXPECT_THROW(read_metrics(dir_.path()), IoError);
}

TEST_F(MetricsFileTest, DeepAndWideValuesAreRefused) {
    const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
    for (const char* key : {"us", "schema", "loss"}) {
        const std::string line = fmt::format(R"({{"type":"step","schema":1,"{}":{}}})", key, deep);
        EXPECT_THAT(refused(line + "\n"), HasSubstr("got other text")) << key;
    }
    std::string wide = R"({"type":"epoch","schema":[0)";
    for (int i = 0; i < 100'000; ++i) {
        wide += ",0";
    }
    const std::string text = refused(wide + "]}\n");
    EXPECT_THAT(text, HasSubstr("schema [0,0"));
    EXPECT_LT(text.size(), 500U);
}

TEST_F(MetricsFileTest, ManyLinesOverThePiecesItIsReadIn) {
    const std::string text = metrics_text(4, 4000);
    ASSERT_GT(text.size(), std::size_t{2} << 20);
    const Metrics metrics = read(text);
    ASSERT_EQ(metrics.steps.size(), 16'000U);
    for (std::size_t i = 0; i < metrics.steps.size(); ++i) {
        ASSERT_EQ(metrics.steps[i].step, static_cast<std::int64_t>(i + 1));
    }
}

TEST_F(MetricsFileTest, ChangedBytesAreReadOrRefused) {
    std::mt19937 random(7);
    const std::string good = metrics_text(2, 3);
    for (int round = 0; round < 3000; ++round) {
        std::string text = good;
        for (int change = 0; change < 3; ++change) {
            text[random() % text.size()] = static_cast<char>(random());
        }
        write_file(path_, text);
        for (const MetricLines lines : {MetricLines::all, MetricLines::last_step}) {
            try {
                const Metrics metrics = read_metrics(path_, lines);
                ASSERT_LE(metrics.steps.size(), 6U);
            } catch (const DataError&) {
            }
        }
    }
}

}  // namespace
}  // namespace stoker
