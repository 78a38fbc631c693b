// Properties of axes, smoothing, thinning and the SVG file of curves.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <sstream>

#include "stoker/base/error.h"
#include "stoker/track/axis.h"
#include "stoker/track/curves.h"
#include "stoker/track/panel.h"
#include "stoker/track/polyline.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<std::string> labels(const Axis& axis) {
    std::vector<std::string> list;
    for (const Tick& tick : axis.ticks) {
        list.push_back(tick.label);
    }
    return list;
}

TEST(AxisTest, KnownLabels) {
    EXPECT_THAT(labels(make_axis(0, 2.3)), ElementsAre("0", "0.5", "1.0", "1.5", "2.0", "2.5"));
    EXPECT_THAT(labels(make_axis(1, 20000, {.tight = true})), ElementsAre("5k", "10k", "15k", "20k"));
    EXPECT_THAT(labels(make_axis(0, 4e-5, {.intervals = 4})), ElementsAre("0", "1e-5", "2e-5", "3e-5", "4e-5"));
    EXPECT_THAT(labels(make_axis(1, 3, {.whole = true, .tight = true})), ElementsAre("1", "2", "3"));
    EXPECT_THAT(labels(make_axis(-1, 1, {.intervals = 2})), ElementsAre("-1", "0", "1"));
    EXPECT_THAT(labels(make_axis(0, 3.2e6, {.intervals = 3})), ElementsAre("0", "1M", "2M", "3M", "4M"));
}

TEST(AxisTest, LogarithmicTicksArePowersOfTen) {
    EXPECT_THAT(labels(make_log_axis(0.04, 390)), ElementsAre("0.01", "0.1", "1", "10", "100", "1000"));
    EXPECT_THAT(labels(make_log_axis(1, 1)), ElementsAre("1", "10"));
    EXPECT_THAT(labels(make_log_axis(1e-9, 1e6)), ElementsAre("1e-9", "1e-6", "0.001", "1", "1000", "1e6"));
    const Axis axis = make_log_axis(0.1, 1000);
    EXPECT_NEAR(axis.share(10), 0.5, 1e-12);
    EXPECT_LT(axis.share(-1), 0);
}

TEST(AxisTest, AnyRangeGetsAFewRoundTicks) {
    std::mt19937 random(3);
    std::uniform_real_distribution<double> exponent(-30, 30);
    std::uniform_real_distribution<double> sign(-1, 1);
    for (int round = 0; round < 20'000; ++round) {
        double low = sign(random) * std::pow(10, exponent(random));
        double high = round % 5 == 0 ? low : low + std::abs(sign(random)) * std::pow(10, exponent(random));
        const AxisOptions options{
            .intervals = 2 + round % 6, .whole = high - low > 10 && round % 2 == 0, .tight = round % 3 == 0};
        const Axis axis = make_axis(low, high, options);
        ASSERT_LT(axis.low, axis.high) << low << " " << high;
        ASSERT_LE(axis.ticks.size(), 16U) << low << " " << high;
        ASSERT_GE(axis.share(low), -1e-6);
        ASSERT_LE(axis.share(high), 1 + 1e-6);
        for (std::size_t i = 0; i < axis.ticks.size(); ++i) {
            ASSERT_GE(axis.share(axis.ticks[i].at), -1e-6);
            ASSERT_LE(axis.share(axis.ticks[i].at), 1 + 1e-6);
            ASSERT_TRUE(i == 0 || axis.ticks[i - 1].at < axis.ticks[i].at);
        }
    }
}

std::vector<CurvePoint> noise(std::size_t count, double gaps) {
    std::mt19937 random(5);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> share(0, 1);
    std::vector<CurvePoint> points;
    for (std::size_t i = 0; i < count; ++i) {
        points.push_back({static_cast<double>(i), share(random) < gaps ? kNan : normal(random)});
    }
    return points;
}

TEST(PolylineTest, ThinningKeepsPeaksAndOrder) {
    for (const double gaps : {0.0, 0.01, 0.5, 1.0}) {
        for (const std::size_t count : {0U, 1U, 10U, 1000U, 50'000U}) {
            const std::vector<CurvePoint> points = noise(count, gaps);
            const std::vector<CurvePoint> thin = thinned(points, 100);
            ASSERT_LE(thin.size(), std::max<std::size_t>(303, 200));
            double least = 1e9, most = -1e9, thin_least = 1e9, thin_most = -1e9;
            for (const CurvePoint& point : points) {
                least = std::isfinite(point.y) ? std::min(least, point.y) : least;
                most = std::isfinite(point.y) ? std::max(most, point.y) : most;
            }
            double before = -1;
            for (const CurvePoint& point : thin) {
                if (std::isfinite(point.y)) {
                    thin_least = std::min(thin_least, point.y);
                    thin_most = std::max(thin_most, point.y);
                    ASSERT_GT(point.x, before);
                    before = point.x;
                }
            }
            ASSERT_EQ(least, thin_least);
            ASSERT_EQ(most, thin_most);
        }
    }
}

TEST(PolylineTest, SmoothingKeepsLevelsAndGaps) {
    std::vector<CurvePoint> points = noise(1000, 0.1);
    for (CurvePoint& point : points) {
        point.y = std::isnan(point.y) ? kNan : 3;
    }
    const std::vector<CurvePoint> smooth = smoothed(points, 20);
    for (std::size_t i = 0; i < points.size(); ++i) {
        ASSERT_EQ(std::isnan(points[i].y), std::isnan(smooth[i].y));
        ASSERT_TRUE(std::isnan(smooth[i].y) || std::abs(smooth[i].y - 3) < 1e-9);
    }
    const std::vector<CurvePoint> rough = noise(1000, 0);
    EXPECT_NEAR(smoothed(rough, 1e-9)[500].y, rough[500].y, 1e-12);
}

CurveRun run_of(const std::string& name, std::int64_t steps, std::int64_t epochs) {
    std::mt19937 random(1);
    std::normal_distribution<double> normal;
    CurveRun run{.name = name, .metrics = {}};
    for (std::int64_t step = 1; step <= steps; ++step) {
        run.metrics.steps.push_back({.step = step,
                                     .epoch = 1,
                                     .samples = 64,
                                     .lr = 0.1 / static_cast<double>(step),
                                     .loss = normal(random),
                                     .seconds = 0.1});
    }
    for (std::int64_t epoch = 1; epoch <= epochs; ++epoch) {
        run.metrics.epochs.push_back({.epoch = epoch, .train_loss = 1, .val_loss = 2, .val_accuracy = 0.5});
    }
    return run;
}

// The number of tags, 0 if one is not closed properly.
int balanced_tags(const std::string& xml) {
    std::vector<std::string> open;
    int tags = 0;
    for (std::size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
        const std::size_t end = xml.find('>', at);
        if (end == std::string::npos) {
            return 0;
        }
        const std::string tag = xml.substr(at + 1, end - at - 1);
        const std::string name =
            tag.substr(tag.starts_with('/') ? 1 : 0, tag.find_first_of(" /", 1) - (tag.starts_with('/') ? 1 : 0));
        ++tags;
        if (tag.starts_with('/')) {
            if (open.empty() || open.back() != name) {
                return 0;
            }
            open.pop_back();
        } else if (!tag.ends_with('/')) {
            open.push_back(name);
        }
    }
    return open.empty() ? tags : 0;
}

TEST(CurvesTest, LongRunsMakeSmallFiles) {
    for (const std::size_t count : {1U, 3U, 4U, 12U}) {
        std::vector<CurveRun> runs;
        for (std::size_t i = 0; i < count; ++i) {
            runs.push_back(run_of("run", 30'000, 90));
        }
        const std::string svg = curves_svg(runs);
        EXPECT_LT(svg.size(), 100'000U) << count;
        EXPECT_GT(balanced_tags(svg), 20) << count;
        EXPECT_THAT(svg, Not(HasSubstr("nan")));
    }
}

// For another task than classification. A run of yet another metric is not drawn in that panel.
TEST(CurvesTest, TheMetricOfTheTaskIsDrawn) {
    CurveRun run = run_of("depth", 10, 3);
    double mae = 0.5;
    for (EpochResult& epoch : run.metrics.epochs) {
        epoch.val_accuracy = std::nullopt;
        epoch.val_metrics = {{"mae", mae, false}, {"r2", 0.9}};
        mae += epoch.epoch == 1 ? -0.3 : 0.1;
    }
    const std::string svg = curves_svg(std::span(&run, 1));
    EXPECT_THAT(svg, HasSubstr(">Validation mae</text>"));
    EXPECT_THAT(svg, HasSubstr("depth: best mae 0.2 in epoch 2"));
    EXPECT_THAT(svg, Not(HasSubstr("accuracy")));
    const std::string both = curves_svg(std::vector{run, run_of("digits", 10, 3)});
    EXPECT_THAT(both, HasSubstr("digits: best 50.00 % in epoch 1"));
    EXPECT_THAT(both, HasSubstr(">Validation mae</text>"));
    for (EpochResult& epoch : run.metrics.epochs) {
        epoch.val_metrics = {{"mean_iou", 0.25}};
    }
    EXPECT_THAT(curves_svg(std::span(&run, 1)), HasSubstr("best mean_iou 25.00 % in epoch 1"));
}

// The loss falls from `first` to about 0.1 within a few of 2,000 steps.
std::string svg_of_loss_from(double first) {
    CurveRun run = run_of("run", 2000, 2);
    for (StepLine& step : run.metrics.steps) {
        step.loss = first * std::exp(-static_cast<double>(step.step - 1) / 3) + 0.1;
    }
    return curves_svg(std::span(&run, 1));
}

// The vertical positions of the line of the first panel that shows every step.
double highest_of_light_line(const std::string& svg) {
    const std::size_t begin = svg.find("d=\"", svg.find("class=\"line c0 light\"")) + 3;
    std::istringstream data(svg.substr(begin + 1, svg.find('"', begin) - begin - 1));
    double x = 0, y = 0, least = 1e9;
    char separator = 0;
    while (data >> x >> y) {
        least = std::min(least, y);
        data >> separator;
    }
    return least;
}

TEST(CurvesTest, TheFirstLossesAreInsideThePanel) {
    constexpr double kPanelTop = 46 + 14 + 28;
    EXPECT_GE(highest_of_light_line(svg_of_loss_from(2.3)), kPanelTop);
    EXPECT_THAT(svg_of_loss_from(2.3), Not(HasSubstr("logarithmic")));
    EXPECT_GE(highest_of_light_line(svg_of_loss_from(4000)), kPanelTop);
    EXPECT_THAT(svg_of_loss_from(4000), HasSubstr("Training loss, logarithmic"));
}

// The number of lines with at least `points` points.
std::ptrdiff_t lines_with(std::ptrdiff_t points, const std::string& svg) {
    std::ptrdiff_t lines = 0;
    for (std::size_t at = svg.find("class=\"line"); at != std::string::npos; at = svg.find("class=\"line", at + 1)) {
        const std::size_t begin = svg.find("d=\"", at) + 3;
        lines += std::ranges::count(svg.substr(begin, svg.find('"', begin) - begin), 'L') + 1 >= points;
    }
    return lines;
}

TEST(CurvesTest, TheLineOfValidationGoesOnOverEpochsWithoutOne) {
    CurveRun run = run_of("run", 0, 100);
    for (EpochResult& epoch : run.metrics.epochs) {
        const auto at = static_cast<double>(epoch.epoch);
        epoch.train_loss = epoch.val_loss.emplace(1 / at);
        epoch.val_accuracy = at / 100;
        if (epoch.epoch % 2 == 1) {
            epoch.val_loss = epoch.val_accuracy = std::nullopt;
        }
    }
    EXPECT_EQ(lines_with(50, curves_svg(std::span(&run, 1))), 3);
}

TEST(CurvesTest, OnePointIsADot) {
    const CurveRun run = run_of("run", 1, 0);
    EXPECT_THAT(curves_svg(std::span(&run, 1)), HasSubstr("h0\"><title>run</title>"));
}

TEST(CurvesTest, StepsHaveWholeTicks) {
    CurveRun run = run_of("run", 3, 0);
    for (StepLine& step : run.metrics.steps) {
        step.loss = 100 * static_cast<double>(step.step);  // no other axis has a label that ends with .5
    }
    EXPECT_THAT(curves_svg(std::span(&run, 1)), Not(HasSubstr(".5</text>")));
}

TEST(CurvesTest, AnyRunCanBeDrawn) {
    for (const std::int64_t steps : {0, 1, 2, 100}) {
        for (const std::int64_t epochs : {0, 1, 3}) {
            CurveRun run = run_of("r", steps, epochs);
            EXPECT_GT(balanced_tags(curves_svg(std::span(&run, 1))), 10);
            for (StepLine& step : run.metrics.steps) {
                step.loss = kNan;
            }
            for (EpochResult& epoch : run.metrics.epochs) {
                epoch.train_loss = kNan, epoch.val_loss = std::nullopt, epoch.val_accuracy = std::nullopt;
            }
            const std::string svg = curves_svg(std::span(&run, 1));
            EXPECT_GT(balanced_tags(svg), 10);
            EXPECT_THAT(svg, HasSubstr("no validation yet"));
        }
    }
    EXPECT_THROW(curves_svg({}), InvalidArgument);
    EXPECT_THROW(curves_svg(std::vector<CurveRun>(kMaxCurveRuns + 1)), InvalidArgument);
}

TEST(CurvesTest, NamesAreText) {
    const CurveRun run = run_of("<script>&\"'\x01\xff", 10, 2);
    const std::string svg = curves_svg(std::span(&run, 1));
    EXPECT_THAT(svg, Not(HasSubstr("<script")));
    EXPECT_THAT(svg, HasSubstr("&lt;script&gt;&amp;&quot;&#39;\xef\xbf\xbd\xef\xbf\xbd"));
    EXPECT_GT(balanced_tags(svg), 10);
}

}  // namespace
}  // namespace stoker
