// stoker lr: a learning-rate range test, with a plot and a suggestion. Nothing of it is kept.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/terminal/output_path.h"
#include "cli/terminal/print.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/signals.h"
#include "engine/commands.h"
#include "engine/ranks.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/pluralize.h"
#include "stoker/recipe/recipe.h"
#include "stoker/track/curves.h"
#include "stoker/train/lr_range_test.h"

namespace stoker::cli {

using Json = nlohmann::ordered_json;
namespace {

struct LrArguments {
    std::string recipe;
    std::vector<std::string> sets;
    RangeTestOptions test;
    std::string out;
    bool json = false;
};

// The largest loss to plot: the end of a diverging one would press the rest to the bottom.
double top_of(const RangeTest& test) {
    std::vector<double> smoothed;
    std::ranges::transform(test.points, std::back_inserter(smoothed), &RatePoint::smoothed);
    const auto lowest = std::ranges::min_element(smoothed);
    const double before = *std::max_element(smoothed.begin(), lowest + 1);
    const double high = std::ranges::max(smoothed);
    const double low = *lowest;
    const auto upper = smoothed.begin() + std::ssize(smoothed) * 3 / 4;
    std::ranges::nth_element(smoothed, upper);
    return std::min(high, std::max(low + 1.5 * (before - low), *upper));
}

// The smoothed loss over the rate: a column for each step or so, rows from the largest loss to the smallest.
std::string text_plot(const RangeTest& test) {
    constexpr std::size_t kRows = 12;
    constexpr std::size_t kColumns = 64;
    const double top = top_of(test);
    const double span = std::max(top - std::ranges::min(test.points, {}, &RatePoint::smoothed).smoothed, 1e-12);
    const std::size_t columns = std::min(kColumns, test.points.size());
    std::vector<std::string> rows(kRows, std::string(columns, ' '));
    for (std::size_t column = 0; column < columns; ++column) {
        const std::size_t at = column * (test.points.size() - 1) / std::max<std::size_t>(columns - 1, 1);
        const double share = std::clamp((top - test.points[at].smoothed) / span, 0.0, 1.0);
        const char mark = test.points[at].smoothed > top ? '^' : '*';
        rows[static_cast<std::size_t>(share * (kRows - 1) + 0.5)][column] = mark;
    }
    std::string text;
    for (std::size_t row = 0; row < kRows; ++row) {
        const double value = top - span * static_cast<double>(row) / (kRows - 1);
        text += fmt::format("{:>10} |{}\n", row % 4 == 0 || row + 1 == kRows ? number_text(value) : "", rows[row]);
    }
    text += fmt::format("{:>10} +{:-<{}}\n", "loss", "", columns);
    const std::string first = fmt::format("{:.0e}", test.points.front().lr);
    const std::string last = fmt::format("{:.0e}", test.points.back().lr);
    const std::size_t room = columns > first.size() + last.size() ? columns - first.size() - last.size() : 1;
    const bool higher = std::ranges::any_of(test.points, [&](const RatePoint& point) { return point.smoothed > top; });
    return text + fmt::format("{:>10}  {}{:{}}{}\n", "rate", first, "", room, last) +
           (higher ? "            ^: a higher loss\n" : "");
}

std::string plot_svg(const RangeTest& test, const std::string& name) {
    Panel panel{.title = "Training loss", .x_name = "learning rate, as a power of ten", .may_be_log = true};
    Series raw{.name = "loss of a step", .points = {}, .color = 0, .look = Look::light};
    Series smooth{.name = "smoothed loss", .points = {}, .color = 0};
    for (const RatePoint& point : test.points) {
        raw.points.push_back({std::log10(point.lr), point.loss});
        smooth.points.push_back({std::log10(point.lr), point.smoothed});
    }
    std::string title = name + ": learning-rate range test";
    panel.series = {raw, smooth};
    if (test.suggestion) {
        const auto [low, high] = std::ranges::minmax(test.points, {}, &RatePoint::smoothed);
        const double x = std::log10(*test.suggestion);
        panel.series.push_back({.name = "suggestion",
                                .points = {{x, low.smoothed}, {x, high.smoothed}},
                                .color = 1,
                                .look = Look::dashed});
        title += fmt::format(", suggestion {:.2g}", *test.suggestion);
    }
    return panel_page_svg(title, panel);
}

Json json_of(const RangeTest& test, const Recipe& recipe) {
    Json points = Json::array();
    for (const RatePoint& point : test.points) {
        points.push_back({{"lr", point.lr}, {"loss", point.loss}, {"smoothed", point.smoothed}});
    }
    return {{"recipe", recipe.name},
            {"lr", recipe.optimizer.lr},
            {"suggestion", test.suggestion ? Json(*test.suggestion) : Json(nullptr)},
            {"diverged", test.diverged},
            {"points", std::move(points)}};
}

void print_result(const RangeTest& test, const Recipe& recipe) {
    print_lines(text_plot(test));
    if (!test.suggestion) {
        print_stdout(
            "\nno suggestion: the loss did not clearly fall before its minimum{}; try a lower --from, more --steps "
            "or larger batches, and look at the data\n",
            test.diverged ? fmt::format(" and diverged at {:.2g}", test.points.back().lr) : "");
        return;
    }
    print_stdout("\nsuggestion: --set optimizer.lr={:.2g}  (the recipe has {:g}){}\n", *test.suggestion,
                 recipe.optimizer.lr,
                 test.diverged ? fmt::format("; the loss diverged at {:.2g}", test.points.back().lr) : "");
}

int run(const LrArguments& options) {
    require_one_rank("stoker lr");
    if (options.test.from >= options.test.to) {
        throw BadSetting(
            {.where = "--from", .expected = "a rate below --to", .got = fmt::to_string(options.test.from)});
    }
    if (!options.out.empty()) {
        require_svg_name("-o", options.out);
        require_writable_file(options.out);
    }
    Recipe recipe = read_recipe(options.recipe, options.sets);
    recipe.train.mesh = {};  // one process trains the whole model, to the same losses
    const std::atomic<int>& stop = catch_signals();
    ProgressBar progress;
    RangeTestOptions test_options = options.test;
    test_options.on_step = [&](std::int64_t done) {
        progress.update({.label = "range test",
                         .done = done,
                         .total = options.test.steps,
                         .amount = static_cast<double>(done * recipe.data.batch_size),
                         .unit = "images"});
        return stop.load() != 0;
    };
    const RangeTest test = lr_range_test(recipe, test_options);
    progress.clear();
    if (stop.load() != 0) {
        return 128 + stop.load();
    }
    if (test.points.empty()) {
        throw InvalidArgument({.where = "lr",
                               .expected = "a finite loss",
                               .got = "none at the smallest rate",
                               .hint = "look at the data and the image ops"});
    }
    if (!options.out.empty()) {
        write_file(options.out, plot_svg(test, recipe.name));
    }
    if (options.json) {
        print_document(json_of(test, recipe));
    } else {
        print_result(test, recipe);
    }
    return 0;
}

}  // namespace

Command add_lr(CLI::App& app) {
    auto options = std::make_shared<LrArguments>();
    constexpr std::int64_t kLeastSteps = 10;
    constexpr std::int64_t kMostSteps = 100'000;
    app.add_option("recipe", options->recipe, "the recipe (TOML)")->required();
    add_set_option(app, options->sets, "data.batch_size=256");
    add_number(app, "--steps", options->test.steps, "steps, each with a larger rate", kLeastSteps, kMostSteps);
    add_number(app, "--from", options->test.from, "the first rate", 1e-12, 1e6);
    add_number(app, "--to", options->test.to, "the last rate", 1e-12, 1e6);
    app.add_option("-o,--out", options->out, "draw the plot into this file")->type_name("OUT.svg");
    app.add_flag("--json", options->json, "one JSON document on stdout instead of the plot");
    example(
        app,
        "  stoker lr recipes/digits.toml\n"
        "  stoker lr recipes/digits.toml --steps 200 -o lr.svg\n"
        "Trains with a rate that grows from step to step until the loss diverges (Smith's range test), and suggests\n"
        "the rate at which the loss falls fastest before its minimum, but at most a tenth of the one at which it\n"
        "diverges. Nothing is written but the plot.");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
